# Finds the libtorch of the torch wheel in HEADRACE_VENV and defines headrace_torch (CPU only).
# The wheel's own TorchConfig demands a CUDA toolkit; libtorch_cpu.so needs only the CUPTI and CUDA
# runtime wheels beside it, so this module links torch_cpu and c10 and nothing else.
file(GLOB _torch_dirs ${HEADRACE_VENV}/lib/python3*/site-packages/torch)
find_path(HeadraceTorch_ROOT NAMES lib/libtorch_cpu.so PATHS ${_torch_dirs} NO_DEFAULT_PATH NO_CACHE)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(HeadraceTorch REQUIRED_VARS HeadraceTorch_ROOT)
if(HeadraceTorch_FOUND AND NOT TARGET headrace_torch)
  add_library(headrace_torch INTERFACE)
  # After the system's folders: the wheel carries headers of other libraries too, among them another
  # version of fmt than the one that Headrace links.
  target_compile_options(headrace_torch INTERFACE
    "SHELL:-idirafter ${HeadraceTorch_ROOT}/include"
    "SHELL:-idirafter ${HeadraceTorch_ROOT}/include/torch/csrc/api/include")
  target_link_libraries(headrace_torch INTERFACE
    -Wl,--no-as-needed ${HeadraceTorch_ROOT}/lib/libtorch_cpu.so ${HeadraceTorch_ROOT}/lib/libc10.so -Wl,--as-needed)
  target_link_options(headrace_torch INTERFACE
    -Wl,-rpath,${HeadraceTorch_ROOT}/lib -Wl,-rpath,${HeadraceTorch_ROOT}/../nvidia/cu13/lib
    -Wl,-rpath-link,${HeadraceTorch_ROOT}/../nvidia/cu13/lib)
endif()
