# Header, library, CMake package and pkg-config file. (The tool installs itself, in bench/.)
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tandem")
set(pkgconfig_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

install(TARGETS tandem EXPORT tandem PUBLIC_HEADER DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
if(TARGET tandem_cuda)
  install(TARGETS tandem_cuda LIBRARY NAMELINK_SKIP) # a plugin: found by its SONAME beside the library
endif()
install(EXPORT tandem NAMESPACE tandem:: DESTINATION "${package_dir}" FILE tandemTargets.cmake)

configure_package_config_file(cmake/tandemConfig.cmake.in tandemConfig.cmake INSTALL_DESTINATION "${package_dir}"
                              NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(tandemConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/tandemConfig.cmake" "${PROJECT_BINARY_DIR}/tandemConfigVersion.cmake"
              cmake/TandemDependencies.cmake DESTINATION "${package_dir}")

file(RELATIVE_PATH prefix_from_pkgconfig "/prefix/${pkgconfig_dir}" "/prefix")
configure_file(cmake/tandem.pc.in tandem.pc @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/tandem.pc" DESTINATION "${pkgconfig_dir}")
