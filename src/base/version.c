#include "git_commit.h"
#include "mhasweep/base.h"

const char *mhas_version(void) { return MHASWEEP_VERSION; }

const char *mhas_git_commit(void) { return MHASWEEP_GIT_COMMIT; }
