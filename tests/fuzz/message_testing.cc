#include "tests/fuzz/message_testing.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <bit>
#include <type_traits>

namespace epic::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kMaxElements = 300;   // of a list that is doubled again and again
constexpr size_t kMaxSites = 4000;  // of which one is edited
constexpr int kEditsOfAnything = 24;

uint64_t Bytes(FuzzInput& in, int count) {
  uint64_t value = 0;
  for (int i = 0; i < count; ++i) value = value << 8 | in.Next();
  return value;
}

uint64_t Number(FuzzInput& in, uint64_t old) {
  switch (in.Next() % 8) {
    case 0:
      return 0;
    case 1:
      return old + 1;
    case 2:
      return old - 1;
    case 3:
      return old * 2;
    case 4:
      return uint64_t{1} << in.Next() % 64;
    case 5:
      return (uint64_t{1} << in.Next() % 64) - 1;
    case 6:
      return Bytes(in, 4);
    default:
      return in.Next();
  }
}

// is_text: UTF-8, else gRPC refuses the message.
std::string Text(FuzzInput& in, const Words& words, std::string old, bool is_text) {
  const auto mask = static_cast<uint8_t>(is_text ? 0x7f : 0xff);
  switch (in.Next() % 8) {
    case 0:
      return "";
    case 1:
      return old.substr(0, old.size() - std::min<size_t>(old.size(), 1));
    case 2:
      return old + static_cast<char>(in.Next() & mask);
    case 3:
      return std::string(in.Next() * 16u, 'x');
    case 4:
      for (char& c : old) c = static_cast<char>(in.Next() & mask);
      return old;
    default:
      return words.empty() ? old : words[in.Next() % words.size()];
  }
}

// A double that is no number of 64 bits counts as none.
template <typename Type>
uint64_t WholeOf(Type old) {
  if constexpr (std::is_floating_point_v<Type>)
    return old >= 0 && old < 9e18 ? static_cast<uint64_t>(old) : 0;
  return static_cast<uint64_t>(old);
}

// Doubles are also what these bits stand for: fractions, infinities, and no numbers.
template <typename Type>
Type Made(FuzzInput& in, uint64_t number) {
  if constexpr (std::is_same_v<Type, double>) {
    if (in.Next() % 2 != 0) return std::bit_cast<double>(number);
  }
  return static_cast<Type>(number);
}

// Reads and writes one scalar: element `index` of a list, or with kSingle a field of its own; index == size
// appends.
constexpr int kSingle = -1;

void EditScalar(FuzzInput& in, const Words& words, Message* m, const FieldDescriptor* field, int index) {
  const Reflection& r = *m->GetReflection();
  const bool single = index == kSingle;
  const bool append = !single && index == r.FieldSize(*m, field);
  switch (field->cpp_type()) {
#define EPIC_EDIT_NUMBER(CPPTYPE, Name, Type)                                                   \
  case FieldDescriptor::CPPTYPE_##CPPTYPE: {                                                    \
    const auto old = single   ? r.Get##Name(*m, field)                                          \
                     : append ? Type{}                                                          \
                              : r.GetRepeated##Name(*m, field, index);                          \
    const auto value = Made<Type>(in, Number(in, WholeOf<Type>(old)));                          \
    if (single) return r.Set##Name(m, field, value);                                            \
    return append ? r.Add##Name(m, field, value) : r.SetRepeated##Name(m, field, index, value); \
  }
    EPIC_EDIT_NUMBER(INT32, Int32, int32_t)
    EPIC_EDIT_NUMBER(INT64, Int64, int64_t)
    EPIC_EDIT_NUMBER(UINT32, UInt32, uint32_t)
    EPIC_EDIT_NUMBER(UINT64, UInt64, uint64_t)
    EPIC_EDIT_NUMBER(ENUM, EnumValue, int)
    EPIC_EDIT_NUMBER(BOOL, Bool, bool)
    EPIC_EDIT_NUMBER(DOUBLE, Double, double)
    EPIC_EDIT_NUMBER(FLOAT, Float, float)
#undef EPIC_EDIT_NUMBER
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string old = single   ? r.GetString(*m, field)
                              : append ? ""
                                       : r.GetRepeatedString(*m, field, index);
      const std::string value = Text(in, words, old, field->type() == FieldDescriptor::TYPE_STRING);
      if (single) return r.SetString(m, field, value);
      return append ? r.AddString(m, field, value) : r.SetRepeatedString(m, field, index, value);
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return;
  }
}

// A field of the message or of one below it.
struct Site {
  Message* message;
  const FieldDescriptor* field;
};

void FindSites(Message* m, std::vector<Site>* sites) {
  const Reflection& r = *m->GetReflection();
  for (int i = 0; i < m->GetDescriptor()->field_count() && sites->size() < kMaxSites; ++i) {
    const FieldDescriptor* field = m->GetDescriptor()->field(i);
    sites->push_back({m, field});
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      if (r.HasField(*m, field)) FindSites(r.MutableMessage(m, field), sites);
      continue;
    }
    for (int k = 0; k < r.FieldSize(*m, field); ++k) FindSites(r.MutableRepeatedMessage(m, field, k), sites);
  }
}

// Appends copies of the messages from `from` on.
void CopyElements(Message* m, const FieldDescriptor* field, int from) {
  const Reflection& r = *m->GetReflection();
  const int size = r.FieldSize(*m, field);
  if (2 * size > kMaxElements) return;
  for (int i = from; i < size; ++i) {
    Message* copy = r.AddMessage(m, field);
    copy->CopyFrom(r.GetRepeatedMessage(*m, field, i));
  }
}

void EditList(FuzzInput& in, const Words& words, Message* m, const FieldDescriptor* field) {
  const Reflection& r = *m->GetReflection();
  const bool messages = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  const int size = r.FieldSize(*m, field);
  const uint8_t how = in.Next() % 6;
  const int index = size == 0 ? 0 : in.Next() % size;
  if (size == 0 || how == 0) {
    if (!messages) return EditScalar(in, words, m, field, size);
    r.AddMessage(m, field);
    return;
  }
  if (how == 1) return r.RemoveLast(m, field);
  if (how == 2) return r.ClearField(m, field);
  if (how == 3) return r.SwapElements(m, field, index, size - 1);
  if (messages) return CopyElements(m, field, how == 4 ? 0 : index);
  EditScalar(in, words, m, field, index);
}

}  // namespace

void Edit(FuzzInput& in, const Words& words, Message* message) {
  std::vector<Site> sites;
  FindSites(message, &sites);
  if (sites.empty()) return;
  const auto [m, field] = sites[Bytes(in, 2) % sites.size()];
  const Reflection& r = *m->GetReflection();
  if (field->is_repeated()) return EditList(in, words, m, field);
  if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return EditScalar(in, words, m, field, kSingle);
  if (r.HasField(*m, field)) return r.ClearField(m, field);
  r.MutableMessage(m, field);
}

std::string StableBytes(const Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

bool Receive(FuzzInput& in, const Words& words, Message* message) {
  const uint8_t how = in.Next();
  std::string bytes;
  if (how >= 0xf0) {
    for (int left = in.Next(); left > 0 && !in.empty(); --left) bytes += static_cast<char>(in.Next());
    return message->ParseFromString(bytes);
  }
  if (how >= 0xe0) message->Clear();
  for (int edits = how >= 0xe0 ? kEditsOfAnything : how % 8 % 5; edits > 0 && !in.empty(); --edits) {
    Edit(in, words, message);
  }
  return message->SerializeToString(&bytes) && message->ParseFromString(bytes);
}

}  // namespace epic::fuzz
