# The files of libtandem, and the flags of those written for one instruction set.
set(TANDEM_SOURCES
    common/backends.c
    common/cache.c
    common/cache_object.c
    common/cache_use.c
    common/context.c
    common/environment.c
    common/error.c
    common/fp8_matmul.c
    common/gqa.c
    common/gqa_traffic.c
    common/inspect.c
    common/kv_append.c
    common/kv_shift.c
    common/log.c
    common/merge_states.c
    common/op_rows.c
    common/ops.c
    common/pool.c
    common/product.c
    common/quantize.c
    common/rotary.c
    common/sized.c
    common/streams.c
    common/tensor.c
    common/workspace.c
    cpu/backend.c
    cpu/convert.c
    cpu/fp8.c
    cpu/fp8_gemm.c
    cpu/fp8_gemv.c
    cpu/fp8_many.c
    cpu/gqa.c
    cpu/gqa_capture.c
    cpu/gqa_edit.c
    cpu/gqa_flash.c
    cpu/gqa_int8_decode.c
    cpu/gqa_integer.c
    cpu/gqa_naive.c
    cpu/gqa_products.c
    cpu/gqa_tile.c
    cpu/gqa_view.c
    cpu/isa.c
    cpu/kv_append.c
    cpu/kv_shift.c
    cpu/merge_states.c
    cpu/prepare.c
    cpu/product.c
    cpu/rows.c
    cpu/leaves/leaf_scalar.c)

# The files of libtandem_cuda. The tests build them once more for a device that is emulated on the CPU.
set(cuda_c
    attention_rows.c
    backend.c
    blas.c
    fp8_cublas_row.c
    fp8_rows.c
    gqa_row.c
    kv_append_row.c
    memory.c
    prepare.c
    scratch.c
    streams.c
    token_runs.c
    vendor.c)
set(cuda_kernels fp8_dequant.cu fp8_mma_gemv.cu fp8_round.cu fp8_warp_gemv.cu gqa.cu kv_append.cu)
list(TRANSFORM cuda_c PREPEND "${PROJECT_SOURCE_DIR}/cuda/" OUTPUT_VARIABLE TANDEM_CUDA_SOURCES)
list(TRANSFORM cuda_kernels PREPEND "${PROJECT_SOURCE_DIR}/cuda/" OUTPUT_VARIABLE TANDEM_CUDA_KERNELS)

set(isa_avx2 -mavx2 -mfma -mf16c)
set(isa_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl ${isa_avx2})
set(isa_avx512vnni -mavx512vnni -mavx512vbmi ${isa_avx512})
set(isa_avx512vnni_2 ${isa_avx512vnni})
set(isa_avx512vnni_1 ${isa_avx512vnni})
set(isa_amx ${isa_avx512vnni}) # tile instructions are written as assembly
# Without a first scheduling gcc keeps blocks that fill the 32 registers in them.
set(isa_neon $<$<C_COMPILER_ID:GNU>:-fno-schedule-insns>)
set(isa_neon_dotprod -march=armv8.2-a+dotprod ${isa_neon})
set(isa_neon_i8mm -march=armv8.2-a+dotprod+i8mm ${isa_neon})

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(isas avx2 avx512 avx512vnni avx512vnni_2 avx512vnni_1 amx)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(isas neon neon_dotprod neon_i8mm)
endif()
foreach(isa IN LISTS isas)
  list(APPEND TANDEM_SOURCES cpu/leaves/leaf_${isa}.c)
  # Link-time optimisation could carry wide instructions into code that runs on any machine.
  set_source_files_properties(cpu/leaves/leaf_${isa}.c PROPERTIES COMPILE_OPTIONS "${isa_${isa}};-fno-lto")
endforeach()
