# The component `library` of `cmake --install`, for find_package(halfulp): the library of formats and arithmetic, its
# headers, its package file. All that has no component of its own is `program`: see package.cmake.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME library)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/halfulp)
install(TARGETS halfulp EXPORT halfulp-targets)
install(EXPORT halfulp-targets NAMESPACE halfulp:: DESTINATION ${package_dir})
install(FILES ${PROJECT_SOURCE_DIR}/support/spelling.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/halfulp/support)
foreach(folder formats emulation)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/halfulp/${folder}
    FILES_MATCHING PATTERN "*.hpp")
endforeach()
write_basic_package_version_file(${PROJECT_BINARY_DIR}/halfulp-config-version.cmake COMPATIBILITY SameMinorVersion)
set(dependencies)
if(HALFULP_ARRAYS)
  set(dependencies "include(CMakeFindDependencyMacro)\nfind_dependency(TBB)\nfind_dependency(hwy)\n")
endif()
file(WRITE ${PROJECT_BINARY_DIR}/halfulp-config.cmake
  "set(halfulp_ARRAYS ${HALFULP_ARRAYS})\n${dependencies}include(\${CMAKE_CURRENT_LIST_DIR}/halfulp-targets.cmake)\n")
install(FILES ${PROJECT_BINARY_DIR}/halfulp-config.cmake ${PROJECT_BINARY_DIR}/halfulp-config-version.cmake
  DESTINATION ${package_dir})
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME program)
