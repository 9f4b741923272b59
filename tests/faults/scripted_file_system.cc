#include "faults/scripted_file_system.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include <rocksdb/file_system.h>

namespace strand::faults {

namespace {

using ::rocksdb::FileOptions;
using ::rocksdb::FileSystem;
using ::rocksdb::FSDirectory;
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
  if (status.ok()) script.after(operation);
  return status;
}

class ScriptedFile final : public ::rocksdb::FSWritableFileOwnerWrapper {
 public:
  ScriptedFile(std::unique_ptr<FSWritableFile> file, std::string name, std::uint64_t size,
               DiskScript& script)
      : FSWritableFileOwnerWrapper(std::move(file)),
        name_(std::move(name)),
        size_(size),
        script_(script) {}

  IOStatus Append(const ::rocksdb::Slice& data, const IOOptions& options,
                  IODebugContext* debug) override {
    DiskOperation write{
        .kind = Kind::write, .file = name_, .offset = size_, .data = {data.data(), data.size()}};
    const auto append = [&] {
      IOStatus status = target()->Append({write.data.data(), write.data.size()}, options, debug);
      if (status.ok()) size_ += write.data.size();
      return status;
    };
    const int error = script_.before(write);
    if (error != 0) write.data = write.data.substr(0, script_.written_of(write));
    IOStatus status = error != 0 && write.data.empty() ? IOStatus::OK() : append();
    if (status.ok() && !write.data.empty()) script_.after(write);
    return error != 0 ? failed(error, name_) : status;
  }
  IOStatus Append(const ::rocksdb::Slice& data, const IOOptions& options,
                  const ::rocksdb::DataVerificationInfo&, IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    return scripted(script_, {.kind = Kind::sync, .file = name_},
                    [&] { return target()->Sync(options, debug); });
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return scripted(script_, {.kind = Kind::sync, .file = name_},
                    [&] { return target()->Fsync(options, debug); });
  }
  IOStatus Truncate(std::uint64_t size, const IOOptions& options, IODebugContext* debug) override {
    return scripted(script_, {.kind = Kind::truncate, .file = name_, .offset = size}, [&] {
      IOStatus status = target()->Truncate(size, options, debug);
      if (status.ok()) size_ = size;
      return status;
    });
  }

 private:
  const std::string name_;
  std::uint64_t size_;
  DiskScript& script_;
};

class ScriptedFolder final : public ::rocksdb::FSDirectory {
 public:
  ScriptedFolder(std::unique_ptr<FSDirectory> folder, std::string name, DiskScript& script)
      : folder_(std::move(folder)), name_(std::move(name)), script_(script) {}

  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return scripted(script_, {.kind = Kind::sync_folder, .file = name_},
                    [&] { return folder_->Fsync(options, debug); });
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* debug,
                               const ::rocksdb::DirFsyncOptions& what) override {
    return scripted(script_, {.kind = Kind::sync_folder, .file = name_},
                    [&] { return folder_->FsyncWithDirOptions(options, debug, what); });
  }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    return folder_->Close(options, debug);
  }
  std::size_t GetUniqueId(char* id, std::size_t max_size) const override {
    return folder_->GetUniqueId(id, max_size);
  }

 private:
  const std::unique_ptr<FSDirectory> folder_;
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
      if (status.ok())
        *result = std::make_unique<ScriptedFile>(std::move(*result), name, 0, script_);
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
    std::uint64_t size = 0;
    if (IOStatus found = target()->GetFileSize(name, {}, &size, debug); !found.ok()) return found;
    IOStatus status = target()->ReopenWritableFile(name, options, result, debug);
    if (status.ok()) {
      *result = std::make_unique<ScriptedFile>(std::move(*result), name, size, script_);
    }
    return status;
  }
  IOStatus NewDirectory(const std::string& name, const IOOptions& options,
                        std::unique_ptr<FSDirectory>* result, IODebugContext* debug) override {
    IOStatus status = target()->NewDirectory(name, options, result, debug);
    if (status.ok()) {
      *result = std::make_unique<ScriptedFolder>(std::move(*result), name, script_);
    }
    return status;
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* debug) override {
    return scripted(script_, {.kind = Kind::rename, .file = to, .from = from},
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
