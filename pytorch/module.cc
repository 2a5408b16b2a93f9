// torch_epic._C: the process group, for Python.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "pytorch/process_group.h"

namespace epic::pytorch {
namespace py = pybind11;

PYBIND11_MODULE(_C, module) {
  // Has the base class.
  py::module_::import("torch.distributed");
  py::class_<ProcessGroupEpic, c10d::ProcessGroup, c10::intrusive_ptr<ProcessGroupEpic>>(module,
                                                                                         "ProcessGroupEpic")
      .def(py::init([](const c10::intrusive_ptr<c10d::ProcessGroup>& gloo, int rank, int size,
                       std::chrono::milliseconds timeout) {
             return c10::make_intrusive<ProcessGroupEpic>(gloo, rank, size, timeout);
           }),
           py::arg("gloo"), py::arg("rank"), py::arg("size"), py::arg("timeout"))
      .def("_join", &ProcessGroupEpic::Join, py::arg("name"), py::call_guard<py::gil_scoped_release>())
      .def("_abort", &ProcessGroupEpic::Abort, py::arg("reason"), py::call_guard<py::gil_scoped_release>())
      .def("quantise", &ProcessGroupEpic::SetQuantise, py::arg("on"),
           py::call_guard<py::gil_scoped_release>())
      .def("path", &ProcessGroupEpic::Path, py::call_guard<py::gil_scoped_release>())
      .def("path_of", &ProcessGroupEpic::PathOf, py::arg("tensor"), py::arg("op"),
           py::call_guard<py::gil_scoped_release>())
      .def("path_of_reduce_scatter", &ProcessGroupEpic::PathOfReduceScatter, py::arg("output"), py::arg("op"),
           py::call_guard<py::gil_scoped_release>());
  module.def("leave_all", &CallQueue::LeaveAll, py::arg("reason"), py::call_guard<py::gil_scoped_release>());
}

}  // namespace epic::pytorch
