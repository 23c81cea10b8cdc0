/* The doctor's look at the current folder as a place for results: what it is, and whether a sweep could write there. */
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cli/doctor.h"

/* ---- what it is ---- */

static const struct file_system {
  unsigned type; /* statfs(2) */
  const char *name;
  bool local; /* each machine has its own */
} file_systems[] = {
    {0xEF53, "ext4", true},        {0x58465342, "xfs", true},     {0x9123683E, "btrfs", true},
    {0x2FC12FC1, "zfs", true},     {0x794C7630, "overlay", true}, {0x01021994, "tmpfs", true},
    {0x6969, "NFS", false},        {0x0BD00BD0, "Lustre", false}, {0x47504653, "GPFS", false},
    {0x19830326, "BeeGFS", false}, {0x00C36400, "CephFS", false}, {0xFF534D42, "CIFS", false},
    {0xFE534D42, "SMB2", false},   {0x01021997, "9p", false},     {0x65735546, "FUSE", false},
    {0xAAD7AAEA, "PanFS", false},  {0x5346414F, "AFS", false},
};

static const struct file_system *file_system_of(unsigned type) {
  for (size_t i = 0; i < sizeof file_systems / sizeof *file_systems; i++) {
    if (file_systems[i].type == type) {
      return &file_systems[i];
    }
  }
  return NULL;
}

static void check_file_system(doctor *self, int hosts) {
  struct statfs kind;
  struct statvfs space;
  if (self->rank != 0) {
    return;
  }
  if (statfs(".", &kind) != 0 || statvfs(".", &space) != 0) {
    doctor_say(self, DOCTOR_FAIL, "folder", "the current folder cannot be looked at: %s", strerror(errno));
    return;
  }
  const struct file_system *known = file_system_of((unsigned)kind.f_type);
  char name[32];
  if (known != NULL) {
    (void)snprintf(name, sizeof name, "%s", known->name);
  } else {
    (void)snprintf(name, sizeof name, "file system 0x%x", (unsigned)kind.f_type);
  }
  char human[MHAS_HUMAN_LENGTH];
  const double free_bytes = (double)space.f_bavail * (double)space.f_frsize;
  (void)mhas_human_bytes(free_bytes, human);
  if (free_bytes < 100.0 * 1024.0 * 1024.0) {
    doctor_say(self, DOCTOR_WARN, "folder", "%s, only %s free: mhasweep plan SPEC.yaml tells what a sweep needs", name,
               human);
  } else if (known != NULL && known->local && hosts > 1) {
    doctor_say(self, DOCTOR_WARN, "folder",
               "%s, %s free: looks as if each of the %d machines had its own; results "
               "must go to a folder that all of them share",
               name, human, hosts);
  } else if (known != NULL && strcmp(known->name, "tmpfs") == 0) {
    doctor_say(self, DOCTOR_WARN, "folder", "%s, %s free: it is memory, and gone when the machine stops", name, human);
  } else {
    doctor_say(self, DOCTOR_OK, "folder", "%s, %s free", name, human);
  }
}

/* ---- whether it can be written ---- */

/* Creates the file through MPI-IO, as a sweep does, and has every rank write its number plus a half. Collective. */
static bool write_together(const doctor *self, const char *path) {
  const hsize_t size = (hsize_t)self->ranks;
  const hsize_t place = (hsize_t)self->rank;
  const hsize_t one = 1;
  const double number = self->rank + 0.5;
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  (void)H5Pset_fapl_mpio(access, self->comm, MPI_INFO_NULL);
  const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
  const hid_t space = H5Screate_simple(1, &size, NULL);
  const hid_t cell = H5Screate_simple(1, &one, NULL);
  const hid_t data =
      file < 0 ? -1 : H5Dcreate2(file, "check", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  bool written = data >= 0 && H5Sselect_hyperslab(space, H5S_SELECT_SET, &place, NULL, &one, NULL) >= 0 &&
                 H5Dwrite(data, H5T_NATIVE_DOUBLE, cell, space, H5P_DEFAULT, &number) >= 0;
  written = (data < 0 || H5Dclose(data) >= 0) && written;
  written = (file < 0 || H5Fclose(file) >= 0) && written;
  (void)H5Sclose(cell);
  (void)H5Sclose(space);
  (void)H5Pclose(access);
  return written;
}

/* Opens the file as a reader of results does, and looks at every number. */
static bool read_back(const doctor *self, const char *path) {
  double *numbers = NULL;
  if (mhas_alloc(&numbers, (size_t)self->ranks, sizeof *numbers, "a check", NULL) != MHAS_OK) {
    return false;
  }
  const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t data = file < 0 ? -1 : H5Dopen2(file, "check", H5P_DEFAULT);
  bool right = data >= 0 && H5Dread(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers) >= 0;
  for (int i = 0; right && i < self->ranks; i++) {
    right = numbers[i] == i + 0.5;
  }
  (void)(data < 0 ? 0 : H5Dclose(data));
  (void)(file < 0 ? 0 : H5Fclose(file));
  mhas_free(numbers);
  return right;
}

#if defined(MPICH_NAME)
#define OTHER_IO "file system by its name: ROMIO_FSTYPE_FORCE=ufs: or nfs: or lustre:"
#else
#define OTHER_IO "MPI-IO: OMPI_MCA_io=^ompio or OMPI_MCA_io=ompio"
#endif

static void check_writing(doctor *self, const char *path) {
  H5E_auto2_t print = NULL;
  void *print_context = NULL;
  (void)H5Eget_auto2(H5E_DEFAULT, &print, &print_context);
  (void)H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* the verdict says it in one line */
  int written = write_together(self, path);
  (void)MPI_Allreduce(MPI_IN_PLACE, &written, 1, MPI_INT, MPI_MIN, self->comm);
  if (!written) {
    doctor_say(self, DOCTOR_FAIL, "writing",
               "HDF5 could not write a file here through MPI-IO: do all machines see this folder? If so, try "
               "another " OTHER_IO);
  } else if (self->rank == 0 && !read_back(self, path)) {
    doctor_say(self, DOCTOR_FAIL, "writing",
               "what was written here through MPI-IO reads back wrong: try another "
               "folder, or another " OTHER_IO);
  } else {
    doctor_say(self, DOCTOR_OK, "writing", "a file was written by %d rank%s through MPI-IO, read back and removed",
               self->ranks, self->ranks == 1 ? "" : "s");
  }
  (void)H5Eset_auto2(H5E_DEFAULT, print, print_context);
}

/* A run locks its result file, so that a second one cannot write it too. */
static void check_locking(doctor *self, const char *path, int descriptor) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  if (fcntl(descriptor, F_OFD_SETLK, &whole) != 0) {
    doctor_say(self, DOCTOR_WARN, "locking",
               "files here cannot be locked (%s): do not start two runs on one file; if HDF5 complains, set "
               "HDF5_USE_FILE_LOCKING=FALSE",
               strerror(errno));
    return;
  }
  const int other = open(path, O_RDWR | O_CLOEXEC);
  const bool kept_out = other >= 0 && fcntl(other, F_OFD_SETLK, &whole) != 0;
  if (other >= 0) {
    (void)close(other);
  }
  if (kept_out) {
    doctor_say(self, DOCTOR_OK, "locking", "a locked file keeps others out");
  } else {
    doctor_say(self, DOCTOR_WARN, "locking", "locks do not keep others out here: do not start two runs on one file");
  }
}

void doctor_check_folder(doctor *self, int hosts) {
  check_file_system(self, hosts);
  char path[] = ".mhasweep-doctor-XXXXXX.h5";
  int descriptor = -1;
  int ready = 1;
  if (self->rank == 0) {
    descriptor = mkostemps(path, 3, O_CLOEXEC);
    ready = descriptor >= 0;
    if (!ready) {
      doctor_say(self, DOCTOR_FAIL, "writing", "no file can be made in the current folder: %s", strerror(errno));
    }
  }
  (void)MPI_Bcast(&ready, 1, MPI_INT, 0, self->comm);
  if (!ready) {
    return;
  }
  (void)MPI_Bcast(path, (int)sizeof path, MPI_CHAR, 0, self->comm);
  check_writing(self, path);
  if (self->rank == 0) {
    check_locking(self, path, descriptor);
    (void)close(descriptor);
    (void)unlink(path);
  }
}
