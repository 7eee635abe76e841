# What `make install` puts where: the commands, the torch-free libraries, their headers and the CMake
# package `headrace` (find_package(headrace) gives headrace::plan, headrace::flow and so on). It also
# defines the target `product`: everything that is installed, without tests.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(installed_libraries headrace_options headrace_plan headrace_record headrace_model headrace_flow
    headrace_trace headrace_data headrace_nn_files)
foreach(library IN LISTS installed_libraries)
  string(REPLACE "headrace_" "" export_name ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${export_name})
endforeach()
install(TARGETS ${installed_libraries} EXPORT headrace-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT headrace-targets NAMESPACE headrace:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/headrace)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/headrace DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/headrace-config.cmake.in
  ${CMAKE_BINARY_DIR}/headrace-config.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/headrace)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/headrace-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/headrace-config.cmake ${CMAKE_BINARY_DIR}/headrace-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/headrace)

# headrace finds headrace-train beside itself and the CUDA half in ../lib; headrace-train finds libtorch
# in the .venv that it was built with.
set(product headrace_nn_files)
foreach(command headrace headrace-train)
  if(TARGET ${command})
    install(TARGETS ${command} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    list(APPEND product ${command})
  endif()
endforeach()
if(TARGET headrace_gpu_cuda)
  install(TARGETS headrace_gpu_cuda LIBRARY DESTINATION lib)
  list(APPEND product headrace_gpu_cuda)
endif()
add_custom_target(product DEPENDS ${product})

if(HEADRACE_TESTS AND NOT HEADRACE_SANITIZE)
  add_test(NAME Install.ConsumerBuildsAgainstThePackage
    COMMAND sh ${CMAKE_SOURCE_DIR}/tests/install/run ${CMAKE_BINARY_DIR})
  set_tests_properties(Install.ConsumerBuildsAgainstThePackage PROPERTIES LABELS cli TIMEOUT 300)
endif()
