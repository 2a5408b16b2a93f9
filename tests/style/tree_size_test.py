"""scripts/dev size counts what a class declares and how long files are."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts/lib"))
import tree_size  # noqa: E402

HEADER = """
class Pool final : public Memory {
 public:
  explicit Pool(size_t bytes) : bytes_(bytes) {}  // a comment with a (

  size_t size() const { return bytes_; }
  std::optional<int> Take(int count,
                          int more);

 private:
  static constexpr size_t kMost = 3;
  struct Place {
    int group = 0, index = 0;
  };
  void Free(int place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  size_t bytes_;
  std::map<int, Place> places_ ABSL_GUARDED_BY(mutex_);
};
"""


def test_methods_and_members_of_a_class_are_counted():
    assert tree_size.classes_of("pool.h", HEADER) == [("pool.h", "Place", 0, 2), ("pool.h", "Pool", 4, 2)]


def test_lines_are_counted_by_folder():
    texts = {"io/a.cc": "1\n2\n", "io/b.h": "1\n", "io/a_test.cc": "1\n", "docs/PAGE.md": "1\n", "tests/x.py": "1\n2\n3\n"}
    assert tree_size.by_folder(texts) == [("io", 2, 3, 2, "io/a.cc", 2), ("tests", 1, 3, 3, "tests/x.py", 3),
                                          ("io, tests", 1, 1, 1, "io/a_test.cc", 1), ("pages", 1, 1, 1, "docs/PAGE.md", 1)]


def test_this_tree_is_read():
    texts = tree_size.files(ROOT)
    assert len(texts) > 1000 and all(methods >= 0 and members >= 0 for _, _, methods, members in tree_size.classes(texts))
