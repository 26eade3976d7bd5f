# The op suites once more on a GPU, by the plugin that nvcc built; skipped where there is no GPU.
if(NOT TANDEM_HAS_CUDA OR NOT TARGET tandem_tool)
  tandem_skip(gpu "no nvcc, CUDA is off, or there is no tool to look for a GPU")
  return()
endif()
foreach(suite IN ITEMS fp8_matmul gqa_bits gqa_caches gqa_rotated gqa_shapes gqa_types gqa_values gqa_visible kv_append
                       kv_append_steps)
  tandem_check(gpu_${suite} gpu 900 "${here}/on_gpu.sh" $<TARGET_FILE:tandem_tool> $<TARGET_FILE:tandem_cuda>
               $<TARGET_FILE:ops_${suite}> --jobs 1)
endforeach()
