// `headrace doctor`: what this machine has and lacks, and how to get what it lacks.
#include <sched.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "cli/commands.h"
#include "gpu/loader.h"
#include "headrace/gguf.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t gib = 1ull << 30;

double in_gib(std::uint64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(gib);
}

enum class Need { required, optional };

class Checkup {
 public:
  void line(Need need, bool good, const std::string& what, const std::string& found,
            const std::string& fix) {
    const char* mark = good ? "ok" : need == Need::required ? "MISSING" : "no";
    fmt::print("{:<9}{:<14}{}\n", mark, what, found);
    if (!good) fmt::print("{:23}fix: {}\n", "", fix);
    if (!good && need == Need::required) healthy_ = false;
  }
  bool healthy() const { return healthy_; }

 private:
  bool healthy_ = true;
};

// The file `name` in a folder of PATH.
std::optional<fs::path> on_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((fs::path(folder) / name).c_str(), X_OK) == 0) return fs::path(folder) / name;
  return std::nullopt;
}

std::string cpu_flags() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("flags") || line.starts_with("Features")) return line + " ";
  return "";
}

// The environment made by `make setup`.
fs::path environment() {
  const char* named = std::getenv("HEADRACE_VENV");
  return named ? named : HEADRACE_VENV;
}

std::optional<fs::path> find_libtorch() {
  std::error_code error;
  for (fs::directory_iterator python(environment() / "lib", error), end; !error && python != end;
       python.increment(error))
    if (const auto path = python->path() / "site-packages/torch/lib/libtorch_cpu.so";
        fs::exists(path))
      return path;
  return std::nullopt;
}

std::optional<fs::path> find_default_model() {
  try {
    return find_model("SmolLM2-135M-Instruct.Q4_1.gguf");
  } catch (const Error&) {
    return std::nullopt;
  }
}

void check_machine(Checkup& checkup) {
  cpu_set_t set;
  const int cores = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  checkup.line(Need::required, cores >= 2, "cores", fmt::format("{} usable", cores),
               "a device needs a core of its own to overlap; two devices need two");
  const auto pages = [](int name) {
    return static_cast<std::uint64_t>(std::max(::sysconf(name), 0L));
  };
  const std::uint64_t memory = pages(_SC_PHYS_PAGES) * pages(_SC_PAGESIZE);
  checkup.line(Need::required, memory >= 3 * gib, "memory",
               fmt::format("{:.1f} GiB", in_gib(memory)),
               "training the default drafter needs 2 GiB beside the system");
  const std::string flags = cpu_flags();
  std::string found;
  for (const char* flag : {"avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16"})
    if (flags.find(fmt::format(" {} ", flag)) != std::string::npos)
      found += fmt::format("{} ", flag);
  checkup.line(Need::optional, found.find("avx2") != std::string::npos, "vectors",
               found.empty() ? "none of avx2, avx512, amx" : found,
               "runs all the same, several times slower; a processor with AVX2 helps");
  checkup.line(Need::optional, found.find("bf16") != std::string::npos, "bf16",
               found.find("bf16") != std::string::npos ? "in hardware" : "not in hardware",
               "nothing to do: computation stays in fp32");
  struct statvfs disk {};
  const std::uint64_t space = ::statvfs(".", &disk) == 0 ? disk.f_bavail * disk.f_frsize : 0;
  checkup.line(Need::required, space >= 4 * gib, "disk",
               fmt::format("{:.1f} GiB free here", in_gib(space)),
               "set-up, build and a run need 4 GiB: free some, or build elsewhere");
}

void check_software(Checkup& checkup) {
  const auto show = [](const std::optional<fs::path>& path, const std::string& otherwise) {
    return path ? path->string() : otherwise;
  };
  const auto compiler = on_path("g++"), cmake = on_path("cmake"), ninja = on_path("ninja");
  checkup.line(Need::optional, compiler.has_value(), "compiler", show(compiler, "no g++ on PATH"),
               "make setup (to build from source)");
  checkup.line(Need::optional, cmake && ninja, "build tools",
               show(cmake ? ninja : cmake, "cmake or ninja not on PATH"),
               "make setup (to build from source)");
  const auto torch = find_libtorch();
  checkup.line(Need::required, torch.has_value(), "libtorch",
               show(torch, "not in " + environment().string()),
               "make setup, or set HEADRACE_VENV; analyze and predict work without");
  const fs::path train = fs::read_symlink("/proc/self/exe").parent_path() / "headrace-train";
  checkup.line(Need::required, fs::exists(train), "training",
               fs::exists(train) ? train.string() : "headrace-train is not built", "make build");
  const auto model = find_default_model();
  checkup.line(Need::required, model.has_value(), "model",
               show(model, "no SmolLM2 in HEADRACE_MODELS or the environment"),
               "make setup, or set HEADRACE_MODELS; any other model goes by its path");
}

void check_gpus(Checkup& checkup) {
  std::ifstream version("/proc/driver/nvidia/version");
  std::string driver;
  std::getline(version, driver);
  checkup.line(Need::optional, !driver.empty(), "GPU driver", driver.empty() ? "none" : driver,
               "only --device cuda needs one: install NVIDIA's driver");
  const GpuList gpus = list_gpus();
  if (gpus.devices.empty())
    checkup.line(Need::optional, false, "GPU", gpus.why_none, "only --device cuda needs one");
  for (std::size_t i = 0; i < gpus.devices.size(); ++i) {
    const GpuDevice& gpu = gpus.devices[i];
    checkup.line(Need::optional, true, fmt::format("GPU {}", i),
                 fmt::format("{}, {:.0f} GiB, compute capability {}.{}, {} multiprocessors",
                             gpu.name, in_gib(gpu.memory_bytes), gpu.capability_major,
                             gpu.capability_minor, gpu.multiprocessors),
                 "");
  }
  auto nvcc = on_path("nvcc");
  if (!nvcc && ::access("/usr/local/cuda/bin/nvcc", X_OK) == 0) nvcc = "/usr/local/cuda/bin/nvcc";
  checkup.line(Need::optional, nvcc.has_value(), "nvcc", nvcc ? nvcc->string() : "none",
               "only the GPU kernels need it: install CUDA 13.0");
}

int doctor() {
  Checkup checkup;
  check_machine(checkup);
  check_software(checkup);
  check_gpus(checkup);
  fmt::print("\n{}\n", checkup.healthy() ? "Everything that training on the CPU needs is here."
                                         : "Training on the CPU lacks what is marked MISSING.");
  return checkup.healthy() ? 0 : 1;
}

}  // namespace

Action add_doctor(CLI::App& app) {
  app.add_subcommand("doctor", "Show what this machine has and lacks");
  return doctor;
}

}  // namespace headrace
