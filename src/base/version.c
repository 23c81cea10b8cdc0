#include "mhasweep/base.h"

/* Both come from CMakeLists.txt. */
const char *mhas_version(void) { return MHASWEEP_VERSION; }

const char *mhas_git_commit(void) { return MHASWEEP_GIT_COMMIT; }
