// What has happened, and how groups have ended, as operators are told.
#include "incmanager/rpc/convert.h"

namespace epic::manager {

proto::GroupEnd ToProto(const GroupEnd& end, Nanos now) {
  proto::GroupEnd out;
  out.set_group_id(end.id);
  out.set_generation(end.generation);
  out.set_ms_ago((now - end.at) / kMillisecond);
  out.set_how(end.how);
  out.set_joined(end.joined);
  if (!end.failure.ok()) *out.mutable_failure() = ToProto(end.failure);
  return out;
}

proto::GroupState ToProto(const GroupEnd& end) {
  proto::GroupState out;
  out.set_name(end.name);
  out.set_group_id(end.id);
  out.set_generation(end.generation);
  out.set_state("ended");
  out.set_world_size(end.world_size);
  out.set_mode(static_cast<proto::Mode>(end.mode));
  return out;
}

proto::Event ToProto(const Event& event, Nanos now) {
  proto::Event out;
  out.set_number(event.number);
  out.set_ms_ago((now - event.at) / kMillisecond);
  out.set_times(event.times);
  out.set_about(event.about);
  out.set_text(event.text);
  return out;
}

}  // namespace epic::manager
