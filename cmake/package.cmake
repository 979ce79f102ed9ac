# cpack's archive and Debian package: the program with its manual pages, completions, page and recordings, and beside it
# the shared libraries whose versions differ from one Debian or Ubuntu to the next. They run on the release they were
# built on and on later ones. The component `links` stays out: cpack would count each link as large as the program.
set(beside ${CMAKE_INSTALL_LIBDIR}/halfulp)
set_target_properties(halfulp_program PROPERTIES INSTALL_RPATH "$ORIGIN/../${beside}")
install(TARGETS halfulp_program RUNTIME_DEPENDENCY_SET halfulp_dependencies DESTINATION ${CMAKE_INSTALL_BINDIR})
install(RUNTIME_DEPENDENCY_SET halfulp_dependencies
  PRE_EXCLUDE_REGEXES ".*"  # but for:
  PRE_INCLUDE_REGEXES "^lib(tbb|hwy|fmt)\\.so"
  LIBRARY DESTINATION ${beside} COMPONENT bundled EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR TGZ DEB)
set(CPACK_PACKAGE_VENDOR "The halfulp developers")
set(CPACK_PACKAGE_CONTACT "The halfulp developers <${PROJECT_HOMEPAGE_URL}>")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGE_FILE_NAME halfulp-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_COMPONENTS_ALL program bundled)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_CURRENT_LIST_DIR})
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "dataset-fashion-mnist, python3-matplotlib, python3-jinja2")
# An archive has one folder, named as itself; a Debian package begins at /usr.
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_BINARY_DIR}/cpack-archive.cmake)
file(WRITE ${CPACK_PROJECT_CONFIG_FILE}
  "if(CPACK_GENERATOR STREQUAL TGZ)\n  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)\nendif()\n")
include(CPack)
