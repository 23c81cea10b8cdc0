#include "store/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/hdf.h"

/* What the access properties carry. */
typedef struct settings {
  int *failure;
} settings;

typedef struct open_file {
  H5FD_t shared; /* HDF5's own part; comes first */
  int descriptor;
  haddr_t end_of_addresses, end_of_file;
  struct stat facts;
  int *failure;
} open_file;

static hid_t driver = H5I_INVALID_HID;

/* HDF5 would know no more than that it failed. */
static H5FD_t *refuse(int reason) {
  (void)H5Epush2(H5E_DEFAULT, __FILE__, __func__, __LINE__, H5E_ERR_CLS, H5E_VFL, H5E_CANTOPENFILE, "%s",
                 strerror(reason));
  return NULL;
}

static H5FD_t *open_driver(const char *name, unsigned flags, hid_t access, haddr_t most) {
  const settings *given = H5Pget_driver_info(access);
  const int way = ((flags & H5F_ACC_RDWR) != 0 ? O_RDWR : O_RDONLY) | ((flags & H5F_ACC_CREAT) != 0 ? O_CREAT : 0) |
                  ((flags & H5F_ACC_EXCL) != 0 ? O_EXCL : 0) | ((flags & H5F_ACC_TRUNC) != 0 ? O_TRUNC : 0);
  (void)most;
  open_file *made = given == NULL ? NULL : calloc(1, sizeof *made);
  if (made == NULL) {
    return refuse(errno);
  }
  made->descriptor = open(name, way | O_CLOEXEC, 0666);
  if (made->descriptor < 0 || fstat(made->descriptor, &made->facts) != 0) {
    const int reason = errno;
    if (made->descriptor >= 0) {
      (void)close(made->descriptor);
    }
    free(made);
    return refuse(reason);
  }
  made->end_of_file = (haddr_t)made->facts.st_size;
  made->failure = given->failure;
  return &made->shared;
}

static void note(open_file *file, int reason) {
  if (*file->failure == 0) {
    *file->failure = reason == 0 ? EIO : reason;
  }
}

static herr_t close_driver(H5FD_t *shared) {
  open_file *file = (open_file *)shared;
  if (close(file->descriptor) != 0) {
    note(file, errno);
  }
  free(file);
  return 0;
}

static int compare(const H5FD_t *one, const H5FD_t *other) {
  const struct stat *a = &((const open_file *)one)->facts;
  const struct stat *b = &((const open_file *)other)->facts;
  if (a->st_dev != b->st_dev) {
    return a->st_dev < b->st_dev ? -1 : 1;
  }
  return a->st_ino < b->st_ino ? -1 : a->st_ino > b->st_ino;
}

static herr_t query(const H5FD_t *shared, unsigned long *flags) {
  (void)shared;
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_AGGREGATE_SMALLDATA |
           H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

static haddr_t get_end_of_addresses(const H5FD_t *shared, H5FD_mem_t type) {
  (void)type;
  return ((const open_file *)shared)->end_of_addresses;
}

static herr_t set_end_of_addresses(H5FD_t *shared, H5FD_mem_t type, haddr_t address) {
  (void)type;
  ((open_file *)shared)->end_of_addresses = address;
  return 0;
}

static haddr_t get_end_of_file(const H5FD_t *shared, H5FD_mem_t type) {
  (void)type;
  return ((const open_file *)shared)->end_of_file;
}

/* Behind the end of the file there are zeros. */
static herr_t read_driver(H5FD_t *shared, H5FD_mem_t type, hid_t transfer, haddr_t address, size_t size, void *out) {
  const open_file *file = (const open_file *)shared;
  char *at = out;
  (void)type, (void)transfer;
  while (size > 0) {
    const ssize_t got = pread(file->descriptor, at, size, (off_t)address);
    if (got < 0 && errno != EINTR) {
      return -1;
    }
    if (got == 0) {
      memset(at, 0, size);
      return 0;
    }
    if (got > 0) {
      at += got;
      address += (haddr_t)got;
      size -= (size_t)got;
    }
  }
  return 0;
}

static herr_t write_driver(H5FD_t *shared, H5FD_mem_t type, hid_t transfer, haddr_t address, size_t size,
                           const void *data) {
  open_file *file = (open_file *)shared;
  const char *at = data;
  (void)type, (void)transfer;
  const haddr_t end = address + size;
  while (size > 0 && *file->failure == 0) {
    const ssize_t written = pwrite(file->descriptor, at, size, (off_t)address);
    if (written < 0 && errno != EINTR) {
      note(file, errno);
    }
    if (written > 0) {
      at += written;
      address += (haddr_t)written;
      size -= (size_t)written;
    }
  }
  file->end_of_file = end > file->end_of_file ? end : file->end_of_file;
  return 0;
}

/* The file as long as HDF5 thinks that it is. */
static herr_t truncate_driver(H5FD_t *shared, hid_t transfer, hbool_t closing) {
  open_file *file = (open_file *)shared;
  (void)transfer, (void)closing;
  if (file->end_of_addresses != file->end_of_file) {
    if (*file->failure == 0 && ftruncate(file->descriptor, (off_t)file->end_of_addresses) != 0) {
      note(file, errno);
    }
    file->end_of_file = file->end_of_addresses;
  }
  return 0;
}

static const H5FD_class_t driver_class = {
#if H5_VERSION_GE(1, 13, 2)
    .version = H5FD_CLASS_VERSION,
    .value = (H5FD_class_value_t)513, /* of those that HDF5 leaves to programs */
#endif
    .name = "mhasweep",
    .maxaddr = ((haddr_t)1 << 62),
    .fc_degree = H5F_CLOSE_WEAK,
    .fapl_size = sizeof(settings),
    .open = open_driver,
    .close = close_driver,
    .cmp = compare,
    .query = query,
    .get_eoa = get_end_of_addresses,
    .set_eoa = set_end_of_addresses,
    .get_eof = get_end_of_file,
    .read = read_driver,
    .write = write_driver,
    .truncate = truncate_driver,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

bool store_driver_use(hid_t access, int *failure) {
  const settings given = {.failure = failure};
  *failure = 0;
  if (driver < 0 || H5Iis_valid(driver) <= 0) { /* HDF5 may have been closed in between */
    driver = H5FDregister(&driver_class);
  }
  return driver >= 0 && H5Pset_driver(access, driver, &given) >= 0;
}

mhas_code store_driver_close(hid_t file, const char *path, const int *failure, mhas_code code, mhas_error *error) {
  if (H5Fclose(file) < 0 && code == MHAS_OK) {
    code = store_hdf5_error(error, path, "cannot be written");
  }
  if (*failure != 0 && code == MHAS_OK) {
    code = mhas_fail(error, MHAS_IO, "%s: cannot be written: %s", path, strerror(*failure));
  }
  return code;
}
