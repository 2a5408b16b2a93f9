// What scripts/lib/stage_pool/ledger.py compiles to compare machines. It includes nothing of the project and stays as it is:
// the figures of tests/budget.json are in units of it.
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

namespace {

std::map<std::string, std::vector<int>> PositionsOfWords(const std::string& text) {
  std::map<std::string, std::vector<int>> positions;
  std::istringstream words(text);
  for (std::string word; words >> word;) positions[word].push_back(static_cast<int>(words.tellg()));
  return positions;
}

template <int N>
int Sum(const std::unordered_map<int, std::variant<int, std::string>>& values) {
  int sum = Sum<N - 1>(values);
  for (const auto& [key, value] : values) {
    sum += std::visit([key](const auto& v) { return static_cast<int>(sizeof v) + key * N; }, value);
  }
  return sum;
}
template <>
int Sum<0>(const std::unordered_map<int, std::variant<int, std::string>>&) {
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::unordered_map<int, std::variant<int, std::string>> values;
  for (int i = 0; i < argc; ++i) values[i] = argv[i];
  std::mt19937 random(1);
  std::vector<std::function<int()>> calls;
  for (int i = 0; i < 10; ++i) calls.push_back([i, &random] { return i + static_cast<int>(random()); });
  std::sort(calls.begin(), calls.end(), [](const auto& a, const auto& b) { return a() < b(); });
  std::cout << Sum<20>(values) << '\n';
  std::cout << PositionsOfWords(argv[0]).size() << '\n';
}
