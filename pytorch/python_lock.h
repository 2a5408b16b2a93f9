// Python's lock, of which C++ that waits lets go.
#pragma once

#include <Python.h>

namespace epic::pytorch {

// While it lives the calling thread does not hold the lock; without effect if it did not before.
class WithoutPythonLock {
 public:
  WithoutPythonLock() {
    // Null also after the end of the interpreter.
    if (PyGILState_GetThisThreadState() != nullptr && PyGILState_Check() != 0) state_ = PyEval_SaveThread();
  }
  ~WithoutPythonLock() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  WithoutPythonLock(const WithoutPythonLock&) = delete;
  WithoutPythonLock& operator=(const WithoutPythonLock&) = delete;

 private:
  PyThreadState* state_ = nullptr;
};

}  // namespace epic::pytorch
