# The files of libtandem, and the flags of those written for one instruction set.
file(GLOB TANDEM_SOURCES CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}" common/*.c cpu/*.c cpu/leaves/leaf_scalar.c)

set(isa_avx2 -mavx2 -mfma -mf16c)
set(isa_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl ${isa_avx2})

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  foreach(isa IN ITEMS avx2 avx512)
   if(EXISTS "${PROJECT_SOURCE_DIR}/cpu/leaves/leaf_${isa}.c")
    list(APPEND TANDEM_SOURCES cpu/leaves/leaf_${isa}.c)
    # Link-time optimisation could carry wide instructions into code that runs on any machine.
    set_source_files_properties(cpu/leaves/leaf_${isa}.c PROPERTIES COMPILE_OPTIONS "${isa_${isa}};-fno-lto")
   endif()
  endforeach()
endif()
