/*
 * The loops of columns.h, for the includer's LANES_LEVEL, behind lanes_body.h for double, whose exp and sum they use.
 * No guard for that.
 */
#define NAMED(name, level) name##_##level##_double
#define NAMED_(name, level) NAMED(name, level)
#define NAME(name) NAMED_(name, LANES_LEVEL)
#define WIDE 64 /* columns at a time: what is known of them stays in registers or the nearest cache */

/* For the columns from c on, `wide` of them. */
#define BY_COLUMNS(C) for (int64_t c = 0, wide; wide = (C)-c < WIDE ? (C)-c : WIDE, c < (C); c += WIDE)

static void NAME(column_softmax)(int64_t T, int64_t C, double *S, int64_t stride) {
  BY_COLUMNS(C) {
    double most[WIDE];
    double sum[WIDE];
    for (int64_t j = 0; j < wide; j++) {
      most[j] = S[c + j];
      sum[j] = 0.0;
    }
    for (int64_t s = 1; s < T; s++) {
      const double *row = S + s * stride + c;
      for (int64_t j = 0; j < wide; j++) {
        most[j] = row[j] > most[j] ? row[j] : most[j];
      }
    }
    for (int64_t s = 0; s < T; s++) {
      double *row = S + s * stride + c;
      for (int64_t j = 0; j < wide; j++) {
        row[j] = NAME(exp_negative)(row[j] - most[j]);
        sum[j] += row[j];
      }
    }
    for (int64_t j = 0; j < wide; j++) {
      sum[j] = 1.0 / sum[j];
    }
    for (int64_t s = 0; s < T; s++) {
      double *row = S + s * stride + c;
      for (int64_t j = 0; j < wide; j++) {
        row[j] *= sum[j];
      }
    }
  }
}

/* The means by A of the columns from c on, `wide` of them. */
static inline void NAME(column_means)(int64_t T, int64_t wide, const double *A, const double *G, int64_t stride,
                                      double mean[WIDE]) {
  for (int64_t j = 0; j < wide; j++) {
    mean[j] = 0.0;
  }
  for (int64_t s = 0; s < T; s++) {
    for (int64_t j = 0; j < wide; j++) {
      mean[j] += A[s * stride + j] * G[s * stride + j];
    }
  }
}

static double NAME(column_total)(int64_t T, int64_t C, const double *A, const double *G, int64_t stride) {
  double total = 0.0;
  BY_COLUMNS(C) {
    double mean[WIDE];
    NAME(column_means)(T, wide, A + c, G + c, stride, mean);
    total += NAME(sum)(wide, mean);
  }
  return total;
}

static double NAME(column_centre)(int64_t T, int64_t C, const double *restrict A, double *restrict G, int64_t stride) {
  double total = 0.0;
  BY_COLUMNS(C) {
    double mean[WIDE];
    NAME(column_means)(T, wide, A + c, G + c, stride, mean);
    for (int64_t s = 0; s < T; s++) {
      const int64_t at = s * stride + c;
      for (int64_t j = 0; j < wide; j++) {
        G[at + j] -= mean[j];
      }
    }
    total += NAME(sum)(wide, mean);
  }
  return total;
}

static double NAME(column_weigh)(int64_t T, int64_t C, const double *restrict A, double *restrict G, int64_t stride) {
  double total = 0.0;
  BY_COLUMNS(C) {
    double mean[WIDE];
    NAME(column_means)(T, wide, A + c, G + c, stride, mean);
    for (int64_t s = 0; s < T; s++) {
      const int64_t at = s * stride + c;
      for (int64_t j = 0; j < wide; j++) {
        G[at + j] = A[at + j] * (G[at + j] - mean[j]);
      }
    }
    total += NAME(sum)(wide, mean);
  }
  return total;
}

static double NAME(column_tangent)(int64_t T, int64_t C, const double *restrict A, const double *restrict G,
                                   int64_t stride, double *restrict dS, double *restrict dG, int64_t d_stride) {
  double total = 0.0;
  BY_COLUMNS(C) {
    double mean[WIDE] = {0};
    double turn[WIDE] = {0};
    for (int64_t s = 0; s < T; s++) {
      const double *a = A + s * stride + c;
      const double *ds = dS + s * d_stride + c;
      for (int64_t j = 0; j < wide; j++) {
        mean[j] += a[j] * ds[j];
      }
    }
    for (int64_t s = 0; s < T; s++) {
      const double *a = A + s * stride + c;
      const double *g = G + s * stride + c;
      const double *dg = dG + s * d_stride + c;
      double *ds = dS + s * d_stride + c;
      for (int64_t j = 0; j < wide; j++) {
        ds[j] = a[j] * (ds[j] - mean[j]);
        turn[j] += ds[j] * g[j] + a[j] * dg[j];
      }
    }
    for (int64_t s = 0; s < T; s++) {
      const double *a = A + s * stride + c;
      const double *g = G + s * stride + c;
      const double *ds = dS + s * d_stride + c;
      double *dg = dG + s * d_stride + c;
      for (int64_t j = 0; j < wide; j++) {
        dg[j] = ds[j] * g[j] + a[j] * (dg[j] - turn[j]);
      }
    }
    total += NAME(sum)(wide, turn);
  }
  return total;
}

static void NAME(column_blend)(int64_t T, int64_t C, double a, double b, const double *restrict A,
                               const double *restrict G, int64_t stride, double *restrict dA, double *restrict dM,
                               int64_t d_stride) {
  for (int64_t s = 0; s < T; s++) {
    const double *weight = A + s * stride;
    const double *g = G + s * stride;
    double *da = dA + s * d_stride;
    double *dm = dM + s * d_stride;
    for (int64_t j = 0; j < C; j++) {
      const double part = a * weight[j];
      da[j] = part + b * da[j];
      dm[j] = part * g[j] + b * dm[j];
    }
  }
}

const columns_double NAME(mhas_columns) = {
    .softmax = NAME(column_softmax),
    .total = NAME(column_total),
    .centre = NAME(column_centre),
    .weigh = NAME(column_weigh),
    .tangent = NAME(column_tangent),
    .blend = NAME(column_blend),
};

#undef NAMED
#undef NAMED_
#undef NAME
#undef WIDE
#undef BY_COLUMNS
