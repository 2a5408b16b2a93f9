// A mutex of which clang knows what it guards: -Wthread-safety (.clang-tidy) finds a member that is
// ABSL_GUARDED_BY(mutex_) and touched without it, and a function that ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_)
// called so. The standard library's own locks it does not know.
#pragma once

#include <absl/base/thread_annotations.h>

#include <mutex>

// Of a constructor after which the destructor locks again; clang takes ABSL_UNLOCK_FUNCTION for another thing.
#ifdef __clang__
#define EPIC_RELEASES(mutex) __attribute__((release_capability(mutex)))
#else
#define EPIC_RELEASES(mutex)
#endif

namespace epic {

// As std::mutex.
class ABSL_LOCKABLE Mutex {
 public:
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  bool try_lock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  // For a function that clang looks at by itself, as a lambda, and that is called with the mutex held.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

 private:
  std::mutex mutex_;
};

// As std::unique_lock, held from the beginning, for std::condition_variable_any, too; of a Mutex, or another
// class with its annotations.
template <typename M>
class ABSL_SCOPED_LOCKABLE BasicMutexLock {
 public:
  explicit BasicMutexLock(M& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : lock_(mutex) {}
  ~BasicMutexLock() ABSL_UNLOCK_FUNCTION() {}
  BasicMutexLock(const BasicMutexLock&) = delete;
  BasicMutexLock& operator=(const BasicMutexLock&) = delete;

  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { lock_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { lock_.unlock(); }
  bool owns_lock() const { return lock_.owns_lock(); }

 private:
  std::unique_lock<M> lock_;
};
using MutexLock = BasicMutexLock<Mutex>;

// Lets go of a mutex that is held, and locks it again at the end.
template <typename M>
class ABSL_SCOPED_LOCKABLE BasicMutexUnlock {
 public:
  explicit BasicMutexUnlock(M& mutex) EPIC_RELEASES(mutex) : mutex_(mutex) { mutex_.unlock(); }
  ~BasicMutexUnlock() ABSL_UNLOCK_FUNCTION() { mutex_.lock(); }
  BasicMutexUnlock(const BasicMutexUnlock&) = delete;
  BasicMutexUnlock& operator=(const BasicMutexUnlock&) = delete;

 private:
  M& mutex_;
};
using MutexUnlock = BasicMutexUnlock<Mutex>;

}  // namespace epic
