#include "faults/scripted_file_system.h"

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include <rocksdb/file_system.h>

namespace strand::faults {

namespace {

using ::rocksdb::FileOptions;
using ::rocksdb::FileSystem;
using ::rocksdb::FSWritableFile;
using ::rocksdb::IODebugContext;
using ::rocksdb::IOOptions;
using ::rocksdb::IOStatus;
using Kind = DiskOperation::Kind;

IOStatus failed(int error, const std::string& file) {
  const std::string why = std::generic_category().message(error);
  return error == ENOSPC ? IOStatus::NoSpace(file, why) : IOStatus::IOError(file, why);
}

// Asks the script, makes the change, tells the script.
template <class Change>
IOStatus scripted(DiskScript& script, const DiskOperation& operation, const Change& change) {
  if (const int error = script.before(operation)) return failed(error, operation.file);
  IOStatus status = change();
  script.after(operation);
  return status;
}

class ScriptedFile final : public ::rocksdb::FSWritableFileOwnerWrapper {
 public:
  ScriptedFile(std::unique_ptr<FSWritableFile> file, std::string name, DiskScript& script)
      : FSWritableFileOwnerWrapper(std::move(file)), name_(std::move(name)), script_(script) {}

  IOStatus Append(const ::rocksdb::Slice& data, const IOOptions& options,
                  IODebugContext* debug) override {
    return scripted(script_, operation(Kind::append, data.size()),
                    [&] { return target()->Append(data, options, debug); });
  }
  IOStatus Append(const ::rocksdb::Slice& data, const IOOptions& options,
                  const ::rocksdb::DataVerificationInfo& info, IODebugContext* debug) override {
    return scripted(script_, operation(Kind::append, data.size()),
                    [&] { return target()->Append(data, options, info, debug); });
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    return scripted(script_, operation(Kind::sync, 0),
                    [&] { return target()->Sync(options, debug); });
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return scripted(script_, operation(Kind::sync, 0),
                    [&] { return target()->Fsync(options, debug); });
  }
  IOStatus Truncate(std::uint64_t size, const IOOptions& options, IODebugContext* debug) override {
    return scripted(script_, operation(Kind::truncate, 0),
                    [&] { return target()->Truncate(size, options, debug); });
  }

 private:
  [[nodiscard]] DiskOperation operation(Kind kind, std::size_t bytes) const {
    return {.kind = kind, .file = name_, .bytes = bytes};
  }

  const std::string name_;
  DiskScript& script_;
};

class ScriptedFileSystem final : public ::rocksdb::FileSystemWrapper {
 public:
  explicit ScriptedFileSystem(DiskScript& script)
      : FileSystemWrapper(FileSystem::Default()), script_(script) {}

  [[nodiscard]] const char* Name() const override { return "strand-scripted"; }

  IOStatus NewWritableFile(const std::string& name, const FileOptions& options,
                           std::unique_ptr<FSWritableFile>* result,
                           IODebugContext* debug) override {
    return scripted(script_, {.kind = Kind::create, .file = name}, [&] {
      IOStatus status = target()->NewWritableFile(name, options, result, debug);
      if (status.ok()) *result = std::make_unique<ScriptedFile>(std::move(*result), name, script_);
      return status;
    });
  }
  // What RocksDB notes for people is of no consequence, and would be most of what a script sees.
  IOStatus NewLogger(const std::string& name, const IOOptions& options,
                     std::shared_ptr<::rocksdb::Logger>* result, IODebugContext* debug) override {
    return FileSystem::Default()->NewLogger(name, options, result, debug);
  }
  IOStatus ReopenWritableFile(const std::string& name, const FileOptions& options,
                              std::unique_ptr<FSWritableFile>* result,
                              IODebugContext* debug) override {
    IOStatus status = target()->ReopenWritableFile(name, options, result, debug);
    if (status.ok()) *result = std::make_unique<ScriptedFile>(std::move(*result), name, script_);
    return status;
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* debug) override {
    return scripted(script_, {.kind = Kind::rename, .file = to},
                    [&] { return target()->RenameFile(from, to, options, debug); });
  }
  IOStatus DeleteFile(const std::string& name, const IOOptions& options,
                      IODebugContext* debug) override {
    return scripted(script_, {.kind = Kind::remove, .file = name},
                    [&] { return target()->DeleteFile(name, options, debug); });
  }

 private:
  DiskScript& script_;
};

}  // namespace

std::unique_ptr<::rocksdb::Env> scripted_env(DiskScript& script) {
  return ::rocksdb::NewCompositeEnv(std::make_shared<ScriptedFileSystem>(script));
}

}  // namespace strand::faults
