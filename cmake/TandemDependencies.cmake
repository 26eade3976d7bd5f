# What libtandem links, as the one target tandem::dependencies. Used by the build, and by the installed
# package when the library is static.
#
# Debian's cpuinfo has a working pkg-config file but a broken CMake config; its pthreadpool has neither.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(CPUINFO REQUIRED IMPORTED_TARGET libcpuinfo)
find_library(PTHREADPOOL_LIBRARY pthreadpool REQUIRED)
find_path(PTHREADPOOL_INCLUDE_DIR pthreadpool.h REQUIRED)
mark_as_advanced(PTHREADPOOL_LIBRARY PTHREADPOOL_INCLUDE_DIR)

if(NOT TARGET tandem::dependencies)
  add_library(tandem::dependencies INTERFACE IMPORTED)
  target_link_libraries(tandem::dependencies INTERFACE PkgConfig::CPUINFO "${PTHREADPOOL_LIBRARY}" Threads::Threads
                                                       ${CMAKE_DL_LIBS} m)
  target_include_directories(tandem::dependencies INTERFACE "${PTHREADPOOL_INCLUDE_DIR}")
endif()
