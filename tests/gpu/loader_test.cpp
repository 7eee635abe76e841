#include "gpu/loader.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace headrace {
namespace {

using testing::HasSubstr;

TEST(GpuLoader, SaysWhereItMissesTheCudaHalf) {
  const GpuList list = list_gpus("/nowhere/libheadrace_gpu.so");
  EXPECT_TRUE(list.devices.empty());
  EXPECT_THAT(list.why_none, HasSubstr("no CUDA half built: /nowhere/libheadrace_gpu.so"));
}

TEST(GpuLoader, RefusesWhatIsNoLibrary) {
  const GpuList list = list_gpus(__FILE__);
  EXPECT_TRUE(list.devices.empty());
  EXPECT_THAT(list.why_none, HasSubstr("cannot load the CUDA half"));
}

TEST(GpuLoader, RefusesALibraryOfSomebodyElse) {
  Dl_info libc;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&std::getenv), &libc), 0);
  const GpuList list = list_gpus(libc.dli_fname);
  EXPECT_TRUE(list.devices.empty());
  EXPECT_THAT(list.why_none, HasSubstr("is not Headrace's CUDA half"));
}

// With the CUDA half and a GPU this sees devices; without, one line says why there is none.
TEST(GpuLoader, AnswersWithDevicesOrWithAReason) {
  const GpuList list = list_gpus();
  EXPECT_NE(list.devices.empty(), list.why_none.empty());
  for (const GpuDevice& device : list.devices) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_GT(device.memory_bytes, 0u);
    EXPECT_GE(device.capability_major, 1);
    EXPECT_GT(device.multiprocessors, 0);
  }
  if (!std::filesystem::exists(gpu_library_path())) {
    EXPECT_THAT(list.why_none, HasSubstr("no CUDA half built"));
  }
}

}  // namespace
}  // namespace headrace
