# Doxygen reads comments of the form /** before, and /**< behind, what they are about; the headers have plain ones.
1s:^/\*:/** @file\n *:
/^\/\* ---- .*\*\/$/d
2,$s:^\( *\)/\*\( \|$\):\1/**\2:
s:\([;,{})a-z]\)  *\*\?/\* :\1 /**< :
/^#include/!{
  s:<\([a-z/>]\):\&lt;\1:g
  s:/\*\*&lt;:/**<:
}
