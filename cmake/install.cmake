# What `cmake --install` puts where: program, library, headers, what finds them (CMake, pkg-config), manual pages,
# completions, sweep files and the analysis.
include(CMakePackageConfigHelpers)

install(TARGETS mhasweep RUNTIME)
install(TARGETS libmhasweep ARCHIVE)
install(DIRECTORY include/mhasweep TYPE INCLUDE)
install(FILES README.md LICENSE TYPE DOC)
install(FILES include/README.md TYPE DOC RENAME LIBRARY.md)
install(DIRECTORY jobs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/mhasweep/jobs USE_SOURCE_PERMISSIONS)
install(DIRECTORY analysis/ DESTINATION ${CMAKE_INSTALL_DATADIR}/mhasweep/analysis PATTERN __pycache__ EXCLUDE)

# mhasweep-plot and mhasweep-report, for which nothing has to be installed by pip
foreach(module plot report)
  configure_file(cmake/analysis-command.in analysis/mhasweep-${module} @ONLY)
  install(PROGRAMS ${PROJECT_BINARY_DIR}/analysis/mhasweep-${module} TYPE BIN)
endforeach()

# ---- manual pages and completions ----

install(FILES ${manual_folder}/mhasweep-sweep.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5)
if(TARGET mhasweep_manual)
  install(FILES ${manual_folder}/mhasweep.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${manual_folder}/mhasweep-experiments.7 DESTINATION ${CMAKE_INSTALL_MANDIR}/man7)
  install(FILES ${manual_folder}/mhasweep.bash
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME mhasweep)
  install(FILES ${manual_folder}/_mhasweep DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
endif()

# ---- for those who link the library ----

# A static library needs what it was built with, in the order in which it was linked, whatever can be found where it is
# used: so the names of those libraries are written down. The headers need MPI's alone.
set(used_libraries "")
foreach(library ${HDF5_C_HL_LIBRARIES} ${HDF5_C_LIBRARIES} ${xsmm_LINK_LIBRARIES} ${blas} ${scalapack} ${arpack}
                ${fyaml_LINK_LIBRARIES} ${muparser_LINK_LIBRARIES} ${GSL_LIBRARY} ${jansson_LINK_LIBRARIES}
                ${zlib_LINK_LIBRARIES} ${MPI_C_LIBRARIES})
  if(NOT library MATCHES "^-|/")
    set(library -l${library})
  endif()
  if(NOT library MATCHES "(^-l|/lib)(c|m|dl|rt|pthread)(\\.a|\\.so)?$") # the C library's own: once, at the end
    list(APPEND used_libraries ${library})
  endif()
endforeach()
list(APPEND used_libraries -lpthread -lrt -ldl -lm)
list(REMOVE_DUPLICATES used_libraries)
set(used_includes ${MPI_C_INCLUDE_DIRS})
set(used_folders "")
foreach(library IN LISTS used_libraries)
  if(IS_ABSOLUTE "${library}")
    get_filename_component(folder ${library} DIRECTORY)
    list(APPEND used_folders ${folder})
  endif()
endforeach()
list(REMOVE_DUPLICATES used_folders)
list(REMOVE_ITEM used_folders ${CMAKE_C_IMPLICIT_LINK_DIRECTORIES})

list(TRANSFORM used_folders PREPEND -Wl,-rpath, OUTPUT_VARIABLE rpaths)
list(JOIN rpaths " " pc_rpaths)
list(JOIN used_libraries " " pc_libraries)
list(TRANSFORM used_includes PREPEND -I OUTPUT_VARIABLE pc_includes)
list(JOIN pc_includes " " pc_includes)
file(RELATIVE_PATH pc_up /x/${CMAKE_INSTALL_LIBDIR}/pkgconfig /x) # the file finds the prefix from where it lies
string(REGEX REPLACE "/$" "" pc_up "${pc_up}")
configure_file(cmake/mhasweep.pc.in mhasweep.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/mhasweep.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/mhasweep)
configure_package_config_file(cmake/mhasweep-config.cmake.in mhasweep-config.cmake INSTALL_DESTINATION ${package_folder}
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(mhasweep-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/mhasweep-config.cmake ${PROJECT_BINARY_DIR}/mhasweep-config-version.cmake
        DESTINATION ${package_folder})
