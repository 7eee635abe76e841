# The layers of the house, lowest first. A library is made for each; it links, and may include, only
# what stands before it in this list. tools/check-layers enforces the includes at every build.
set(HEADRACE_LAYERS plan record model flow trace data gpu nn serve train cli)

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)

add_library(headrace_options INTERFACE)
target_include_directories(headrace_options INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src>
  $<INSTALL_INTERFACE:include>)
target_compile_options(headrace_options INTERFACE
  $<BUILD_INTERFACE:-Wall;-Wextra;-Wshadow;-Wnon-virtual-dtor;-Wno-missing-field-initializers>
  # g++ 12 sees an overlap in `"literal" + string` where there is none (its PR 105651).
  "$<BUILD_INTERFACE:$<$<BOOL:${HEADRACE_WERROR}>:-Werror;-Wno-restrict>>")
target_link_libraries(headrace_options INTERFACE Threads::Threads fmt::fmt)
if(HEADRACE_SANITIZE)
  # g++ 12 takes instrumented constructors for reads of what they make.
  target_compile_options(headrace_options INTERFACE
    -fsanitize=${HEADRACE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -Wno-maybe-uninitialized)
  target_link_options(headrace_options INTERFACE -fsanitize=${HEADRACE_SANITIZE})
  # libtorch is not instrumented: sanitizers cover the torch-free libraries.
  set(HEADRACE_TORCH off)
endif()

add_custom_target(check_layers
  COMMAND sh ${CMAKE_SOURCE_DIR}/tools/check-layers ${CMAKE_SOURCE_DIR}
  COMMENT "Checking that no layer includes a higher one")

# headrace_layer(NAME [SOURCES ...] [LINK ...]): the library headrace_NAME from src/NAME/*.cpp, or
# from the named files.
function(headrace_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  if(NOT ARG_SOURCES)
    file(GLOB ARG_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  endif()
  add_library(headrace_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(headrace_${name} PUBLIC headrace_options ${ARG_LINK})
  add_dependencies(headrace_${name} check_layers)
endfunction()

# Sets HEADRACE_HAS_TORCH and, where libtorch is found, the target headrace_torch.
if(HEADRACE_TORCH STREQUAL "off")
  set(HEADRACE_HAS_TORCH OFF)
else()
  find_package(HeadraceTorch MODULE QUIET)
  set(HEADRACE_HAS_TORCH ${HeadraceTorch_FOUND})
  if(HEADRACE_TORCH STREQUAL "on" AND NOT HEADRACE_HAS_TORCH)
    message(FATAL_ERROR "HEADRACE_TORCH=on, but no libtorch under ${HEADRACE_VENV}: run `make setup`, "
                        "or set HEADRACE_VENV to an environment with torch 2.11.0")
  endif()
endif()

# Sets HEADRACE_HAS_CUDA.
set(HEADRACE_HAS_CUDA OFF)
if(NOT HEADRACE_CUDA STREQUAL "off")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(HEADRACE_HAS_CUDA ON)
  elseif(HEADRACE_CUDA STREQUAL "on")
    message(FATAL_ERROR "HEADRACE_CUDA=on, but no nvcc was found: install CUDA 13.0 or set HEADRACE_CUDA=off")
  endif()
endif()
message(STATUS "headrace: torch ${HEADRACE_HAS_TORCH}, cuda ${HEADRACE_HAS_CUDA}")
