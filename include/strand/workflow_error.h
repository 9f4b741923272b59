#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <strand/body.h>

namespace strand {

// What activities and workflows throw to say more than a text: a type that the other side can ask
// for, and details. Any other exception is an error of the type "exception".
class ApplicationError : public std::runtime_error {
 public:
  ApplicationError(std::string type, const std::string& message, Bytes details = {})
      : std::runtime_error(message), type_(std::move(type)), details_(std::move(details)) {}

  [[nodiscard]] const std::string& type() const { return type_; }
  [[nodiscard]] const Bytes& details() const { return details_; }
  // Trying again cannot help, whatever the retry policy says.
  [[nodiscard]] ApplicationError final() && {
    final_ = true;
    return std::move(*this);
  }
  [[nodiscard]] bool is_final() const { return final_; }

 private:
  std::string type_;
  Bytes details_;
  bool final_ = false;
};

// A type of error with typed details, known to those who throw it and those who catch it:
//
//   const strand::ErrorType<Decline> card_declined{"card_declined"};
//   throw card_declined("the bank said no", Decline{.code = 51}).final();         in the activity
//   catch (const strand::ActivityError& error) {                                  in the workflow
//     if (const auto decline = error.details(card_declined)) …
template <class T>
class ErrorType {
 public:
  explicit ErrorType(std::string name) : name_(std::move(name)) {}
  [[nodiscard]] const std::string& name() const { return name_; }
  ApplicationError operator()(const std::string& message, const T& details) const {
    auto body = to_body(details);
    return {name_, message, body ? *std::move(body) : Bytes{}};
  }

 private:
  std::string name_;
};

// What comes out of a co_await in a workflow when what it waited for did not succeed.
class WorkflowError : public std::runtime_error {
 public:
  enum class Kind : std::uint8_t {
    failed,      // it threw, for the last time
    timed_out,   // its time was over, for the last time; or a deadline has passed
    crashed,     // whoever worked on it died, for the last time; or it was dropped from its queue
    cancelled,   // by this workflow, or this workflow itself was cancelled
    terminated,  // a child that was ended by force
    refused,     // it could not be started: a child of that id exists
  };

  WorkflowError(Kind kind, std::string type, const std::string& message, Bytes details = {})
      : std::runtime_error(message),
        kind_(kind),
        type_(std::move(type)),
        details_(std::move(details)) {}

  [[nodiscard]] Kind kind() const { return kind_; }
  // The type of an ApplicationError; "exception" for others; "" if there was none.
  [[nodiscard]] const std::string& type() const { return type_; }
  [[nodiscard]] const Bytes& details() const { return details_; }
  template <class T>
  [[nodiscard]] bool is(const ErrorType<T>& type) const {
    return type_ == type.name();
  }
  // None if it is an error of another type.
  template <class T>
  [[nodiscard]] std::optional<T> details(const ErrorType<T>& type) const {
    if (!is(type)) return std::nullopt;
    auto value = from_body<T>(details_);
    return value ? std::optional<T>(*std::move(value)) : std::nullopt;
  }

 private:
  Kind kind_;
  std::string type_;
  Bytes details_;
};
std::string_view to_string(WorkflowError::Kind kind);

// Of an activity, after all its attempts.
class ActivityError : public WorkflowError {
 public:
  ActivityError(std::string activity, Kind kind, std::string type, const std::string& message,
                Bytes details = {})
      : WorkflowError(kind, std::move(type), message, std::move(details)),
        activity_(std::move(activity)) {}
  [[nodiscard]] const std::string& activity() const { return activity_; }

 private:
  std::string activity_;
};

// Of a child workflow.
class ChildError : public WorkflowError {
 public:
  ChildError(std::string instance, Kind kind, std::string type, const std::string& message,
             Bytes details = {})
      : WorkflowError(kind, std::move(type), message, std::move(details)),
        instance_(std::move(instance)) {}
  [[nodiscard]] const std::string& instance() const { return instance_; }

 private:
  std::string instance_;
};

// The workflow, or the part of it that waits, was cancelled. Clean up, and let it pass: an instance
// that ends with it has the outcome `cancelled`.
class Cancelled : public WorkflowError {
 public:
  explicit Cancelled(const std::string& reason) : WorkflowError(Kind::cancelled, "", reason) {}
};

// See Workflow::within.
class DeadlinePassed : public WorkflowError {
 public:
  explicit DeadlinePassed(const std::string& message)
      : WorkflowError(Kind::timed_out, "", message) {}
};

}  // namespace strand
