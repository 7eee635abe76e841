// A thread of control with its own stack, switched to without a system call: what the threads of an
// explored program run on. x86-64 alone; elsewhere, and under ThreadSanitizer, which would take
// every stack for the same thread, kFibers is false and tests skip.
#pragma once

#include <cxxabi.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>

#ifdef __SANITIZE_ADDRESS__
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif

namespace headrace::explore {

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
inline constexpr bool kFibers = true;

// Saves the registers that a call keeps, and the stack pointer to *from; goes on at `to`.
[[gnu::naked, gnu::noinline]] inline void switch_stack(void** /*from*/, void* /*to*/) {
  asm("pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
      "movq %rsp, (%rdi)\n"
      "movq %rsi, %rsp\n"
      "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n"
      "ret\n");
}
#else
inline constexpr bool kFibers = false;
inline void switch_stack(void**, void*) {}
#endif

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kSanitized = true;  // slower by an order of magnitude
#else
inline constexpr bool kSanitized = false;
#endif

class Fiber {
 public:
  // Without start(): the stack of the calling thread, to come back to.
  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber() {
    if (stack_ != nullptr) munmap(stack_, kStackBytes);
  }

  // The next switch to this fiber calls entry(), which must not return and has to call entered()
  // first. What ran here before is forgotten: nothing on its stack is destroyed.
  void start(void (*entry)()) {
    if (stack_ == nullptr) allocate();
    auto* top = reinterpret_cast<void**>(stack_ + kStackBytes);
    *--top = nullptr;  // where the caller of entry() would be; it also aligns the stack
    *--top = reinterpret_cast<void*>(entry);
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    stack_pointer_ = top;
    exceptions_ = {};
#ifdef __SANITIZE_ADDRESS__
    ASAN_UNPOISON_MEMORY_REGION(stack_, kStackBytes);
#endif
  }

  // Runs `to` until something switches back to this fiber, which must be the one that runs.
  void switch_to(Fiber& to) {
    auto& now = *reinterpret_cast<Exceptions*>(abi::__cxa_get_globals());
    exceptions_ = now;
    now = to.exceptions_;
#ifdef __SANITIZE_ADDRESS__
    void* fake_stack = nullptr;
    if (to.stack_ != nullptr)
      __sanitizer_start_switch_fiber(&fake_stack, to.stack_, kStackBytes);
    else
      start_switch_to_thread(&fake_stack);
    switch_stack(&stack_pointer_, to.stack_pointer_);
    __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#else
    switch_stack(&stack_pointer_, to.stack_pointer_);
#endif
  }

  // After a run that failed: what lies on this stack is never destroyed, which is no leak.
  void abandon() {
#ifdef __SANITIZE_ADDRESS__
    if (stack_ == nullptr) return;
    __lsan_register_root_region(stack_, kStackBytes);
    stack_ = nullptr;
#endif
  }

  static void entered() {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
  }

 private:
  static constexpr std::size_t kStackBytes = 256 << 10;

  // What the C++ runtime keeps of exceptions in flight, for each thread.
  struct Exceptions {
    void* caught = nullptr;
    unsigned uncaught = 0;
  };

  void allocate() {
    void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    mprotect(memory, 4096, PROT_NONE);  // an overflow stops the program here
    stack_ = static_cast<std::byte*>(memory);
  }

#ifdef __SANITIZE_ADDRESS__
  static void start_switch_to_thread(void** fake_stack) {
    struct Bounds {
      void* bottom = nullptr;
      std::size_t bytes = 0;
      Bounds() {
        pthread_attr_t attributes;
        pthread_getattr_np(pthread_self(), &attributes);
        pthread_attr_getstack(&attributes, &bottom, &bytes);
        pthread_attr_destroy(&attributes);
      }
    };
    static const Bounds bounds;
    __sanitizer_start_switch_fiber(fake_stack, bounds.bottom, bounds.bytes);
  }
#endif

  std::byte* stack_ = nullptr;
  void* stack_pointer_ = nullptr;
  Exceptions exceptions_;
};

}  // namespace headrace::explore
