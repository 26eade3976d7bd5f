# The plugin that nvcc built.
if(NOT TARGET tandem_cuda)
  tandem_skip(cuda_plugin "no nvcc, or CUDA is off: the plugin is not built")
elseif(TARGET tandem_tool)
  find_file(CUDA_STUB libcuda.so PATHS "${CUDAToolkit_LIBRARY_DIR}/stubs" NO_DEFAULT_PATH)
  tandem_check(cuda_plugin cuda 60 "${python}" "${here}/cuda/plugin.py" $<TARGET_FILE:tandem_tool>
               $<TARGET_FILE:tandem_cuda> $<$<BOOL:${CUDA_STUB}>:${CUDA_STUB}>)
endif()
