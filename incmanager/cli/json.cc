#include "incmanager/cli/json.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string_view>

#include "incmanager/cli/table.h"
#include "proto/manager.pb.h"

namespace epic::manager {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Json = nlohmann::ordered_json;

// What an event is, by what it is about and how its text goes; the first row that fits.
struct EventRow {
  std::string_view about, begins, has, type;
};
constexpr EventRow kEvents[] = {
    {"switch", "up", "", "switch_up"},
    {"switch", "agent registered", "", "agent_registered"},
    {"switch", "agent lost", "", "agent_lost"},
    {"switch", "agent at ", " refused: ", "agent_refused"},
    {"switch", "engine started anew", "", "engine_restarted"},
    {"switch", "engine stopped", "", "engine_stopped"},
    {"switch", "lost", "", "switch_lost"},
    {"switch", "forwarding table not set", "", "table_not_set"},
    {"switch", "group ", " not removed", "group_not_removed"},
    {"switch", "not awaited", "", "switch_not_awaited"},
    {"host", "registered", "", "host_registered"},
    {"host", "refused", "", "host_refused"},
    {"host", "lost", "", "host_lost"},
    {"group", "reserved", "", "group_reserved"},
    {"group", "rank ", " refused: ", "rank_refused"},
    {"group", "rank ", " joined from ", "rank_joined"},
    {"group", "rank ", " went away", "rank_gone"},
    {"group", "running", "", "group_running"},
    {"group", "failed", "", "group_failed"},
    {"group", "all ", " have left", "group_left"},
    {"group", "removed", "", "group_removed"},
    {"group", "destroyed", "", "group_destroyed"},
    {"group", "calls that need ", "", "group_lacks"},
    {"group", "shares memory", "", "group_shares"},
    {"group", "single frames", "", "group_single_frames"},
    {"group", "multicast to ", "", "group_multicast"},
    {"group", "no multicast: ", "", "group_no_multicast"},
    {"group", "", " refuses all that comes from ", "group_refused"},
    {"network", "link between ", " is ", "link"},
    {"network", "link between ", " has a carrier", "link"},
    {"network", "", ", but it is heard at ", "host_misplaced"},
    {"network", "host ", "", "host"},
    {"network", "switch ", "", "switch"},
    {"policy", "", "", "policy_set"},
    {"tenant", "set", "", "tenant_set"},
    {"tenant", "removed", "", "tenant_removed"},
};

std::string_view TypeOf(std::string_view about, std::string_view text) {
  const std::string_view kind = about.substr(0, about.find(' '));
  for (const EventRow& row : kEvents) {
    if (row.about == kind && text.starts_with(row.begins) && text.find(row.has) != std::string_view::npos) return row.type;
  }
  return "other";
}

// RFC 3339, in UTC.
std::string Time(int64_t ms) {
  const std::time_t seconds = static_cast<std::time_t>(ms / 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", utc, ms % 1000);
}

Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

class Writer {
 public:
  explicit Writer(int64_t now_ms) : now_ms_(now_ms) {}

  void Add(const Message& message, Json* out) const {
    const auto* const event = dynamic_cast<const proto::Event*>(&message);
    if (event != nullptr) {
      (*out)["time"] = Time(now_ms_ - event->ms_ago());
      (*out)["type"] = TypeOf(event->about(), event->text());
    }
    for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
      const FieldDescriptor* const field = message.GetDescriptor()->field(i);
      Json& value = (*out)[field->name()];
      if (field->is_map()) {
        value = Map(message, field);
      } else if (field->is_repeated()) {
        value = Json::array();
        for (int at = 0; at < message.GetReflection()->FieldSize(message, field); ++at)
          value.push_back(Value(message, field, at));
      } else if (field->has_presence() && !message.GetReflection()->HasField(message, field)) {
        out->erase(field->name());
      } else {
        value = Value(message, field, -1);
      }
    }
  }

 private:
  Json Map(const Message& message, const FieldDescriptor* field) const {
    Json out = Json::object();
    for (int at = 0; at < message.GetReflection()->FieldSize(message, field); ++at) {
      const Message& entry = message.GetReflection()->GetRepeatedMessage(message, field, at);
      const Json key = Value(entry, field->message_type()->map_key(), -1);
      out[key.is_string() ? key.get<std::string>() : key.dump()] = Value(entry, field->message_type()->map_value(), -1);
    }
    return out;
  }

  // at: of a repeated field; else -1.
  Json Value(const Message& message, const FieldDescriptor* field, int at) const {
    const auto* const r = message.GetReflection();
    const bool one = at < 0;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE: {
        Json out = Json::object();
        Add(one ? r->GetMessage(message, field) : r->GetRepeatedMessage(message, field, at), &out);
        return out;
      }
      case FieldDescriptor::CPPTYPE_STRING: {
        const std::string text = one ? r->GetString(message, field) : r->GetRepeatedString(message, field, at);
        return field->type() == FieldDescriptor::TYPE_BYTES && !text.empty() ? MacText(text) : text;
      }
      case FieldDescriptor::CPPTYPE_UINT32: {
        const uint32_t number = one ? r->GetUInt32(message, field) : r->GetRepeatedUInt32(message, field, at);
        if (field->type() != FieldDescriptor::TYPE_FIXED32) return number;
        return number == 0 ? std::string() : Ip(number);
      }
      case FieldDescriptor::CPPTYPE_UINT64:
        return one ? r->GetUInt64(message, field) : r->GetRepeatedUInt64(message, field, at);
      case FieldDescriptor::CPPTYPE_INT32:
        return one ? r->GetInt32(message, field) : r->GetRepeatedInt32(message, field, at);
      case FieldDescriptor::CPPTYPE_INT64:
        return one ? r->GetInt64(message, field) : r->GetRepeatedInt64(message, field, at);
      case FieldDescriptor::CPPTYPE_BOOL:
        return one ? r->GetBool(message, field) : r->GetRepeatedBool(message, field, at);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return Number(one ? r->GetDouble(message, field) : r->GetRepeatedDouble(message, field, at));
      case FieldDescriptor::CPPTYPE_FLOAT: {
        // The shortest text that is this float, and not the double next to it.
        const float number = one ? r->GetFloat(message, field) : r->GetRepeatedFloat(message, field, at);
        return Number(std::strtod(fmt::format("{}", number).c_str(), nullptr));
      }
      case FieldDescriptor::CPPTYPE_ENUM:
        return one ? r->GetEnum(message, field)->name() : r->GetRepeatedEnum(message, field, at)->name();
    }
    return nullptr;
  }

  const int64_t now_ms_;
};

}  // namespace

std::string ToJson(const Message& reply, int64_t now_ms) {
  Json out = Json::object();
  out["json_version"] = kJsonVersion;
  Writer(now_ms).Add(reply, &out);
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace epic::manager
