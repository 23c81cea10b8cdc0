/* One point of the probe with Z spread over a team of ranks, or in blocks on one. */
#include "experiments/probe.h"

/* The samples that Z is made of; `drawn` is for what is before an embedding. */
typedef struct spread_samples {
  const probe *p;
  double *drawn;
} spread_samples;

static mhas_code spread_contexts(void *context, int64_t first, int64_t count, double *E, mhas_error *error) {
  const spread_samples *s = context;
  return probe_see_contexts(s->p, first, s->p->shape.shared ? 0 : count, s->drawn, E, error);
}

static mhas_code spread_queries(void *context, int64_t first, int64_t count, double *e, mhas_error *error) {
  const spread_samples *s = context;
  return probe_see_queries(s->p, first, count, s->drawn, e, error);
}

/* `probe_build_features` asks in the middle of what is collective. */
static mhas_code always_proceed(void *context, mhas_error *error) { return (void)context, (void)error, MHAS_OK; }

/* The maps of the first samples, for which every rank makes their features by itself. */
static mhas_code make_maps(probe *p, mhas_error *error) {
  const int64_t count = probe_attention_samples(p->task->point.values);
  const size_t maps = (size_t)(count * p->shape.heads * p->shape.context);
  double *rows = NULL;
  int64_t unused = 0;
  MHAS_TRY(mhas_alloc(&p->maps, maps, sizeof(double), "the stored attention maps", error));
  MHAS_TRY(mhas_alloc(&rows, (size_t)(count * p->width), sizeof *rows, "the features of a few samples", error));
  mhas_task task = *p->task;
  task.proceed = always_proceed;
  probe local = *p;
  local.task = &task;
  const mhas_code code = probe_build_features(&local, 0, count, rows, &unused, error);
  mhas_free(rows);
  return code;
}

/* What is stored, and what only one member may find no room for. */
static mhas_code prepare_spread(probe *p, const mhas_weights_wish *wish, double **drawn, mhas_error *error) {
  const unsigned store = p->row->keep == NULL ? 0 : p->task->store;
  const size_t T = (size_t)p->T;
  const size_t width = (size_t)p->width;
  MHAS_TRY(mhas_source_open(&wish->source, p->task->point.random, &p->source, error));
  if (p->weights.embedding.weight != NULL) {
    MHAS_TRY(mhas_alloc(drawn, probe_drawn_count(p, mhas_features_block(&p->shape, p->T)), sizeof **drawn,
                        "the data before the embedding", error));
  }
  if (p->row->spectrum != NULL || probe_solver(p->task->point.values) == MHAS_SOLVE_SVD) {
    MHAS_TRY(mhas_alloc(&p->sigma, T < width ? T : width, sizeof(double), "the spectrum", error));
  }
  if ((store & MHAS_STORE_WEIGHTS) != 0) {
    MHAS_TRY(mhas_alloc(&p->B, width * (size_t)p->outputs, sizeof(double), "the stored readout", error));
  }
  if ((store & MHAS_STORE_DATA) != 0) {
    MHAS_TRY(mhas_alloc(&p->y, T, sizeof(double), "the stored labels", error));
    mhas_data_labels(&p->data, p->task->point.random, 0, p->T, p->y);
  }
  if ((store & MHAS_STORE_ATTENTION) != 0) {
    MHAS_TRY(make_maps(p, error));
  }
  if ((store & MHAS_STORE_Z) != 0 && p->task->team.size > 1) {
    return mhas_fail(error, MHAS_LIMIT,
                     "Z is spread over %d ranks and none has it whole: leave z out of `store`, or raise "
                     "limits.memory_per_rank",
                     p->task->team.size);
  }
  return (store & MHAS_STORE_Z) != 0 ? mhas_alloc(&p->Z, T * width, sizeof(double), "the stored Z", error) : MHAS_OK;
}

static mhas_code fit_spread(probe *p, double *drawn, int64_t *saturated, mhas_error *error) {
  const mhas_value *values = p->task->point.values;
  spread_samples source = {p, drawn};
  const mhas_features_samples samples = {p->T, spread_contexts, spread_queries, &source};
  mhas_spread_probe spread = {
      .task = p->task,
      .shape = p->shape,
      .data = p->data,
      .width = p->width,
      .outputs = p->outputs,
      .solver = probe_solver(values),
      .loose_ranks = values[P_LOOSE_RANKS].integer != 0,
      .fit_tolerance = values[P_FIT_TOLERANCE].real,
      .W_Q = p->weights.W_Q,
      .W_K = p->weights.W_K,
      .compose = p->weights.compose,
      .samples = &samples,
      .sigma = p->sigma,
      .B = p->B,
      .Z = p->Z,
  };
  MHAS_TRY(mhas_probe_spread(&spread, error));
  mhas_value *result = p->row->results;
  result[R_RANK].integer = spread.ranks[0];
  result[R_RANK_1E3].integer = spread.ranks[1];
  result[R_RANK_1E6].integer = spread.ranks[2];
  result[R_RANK_1E9].integer = spread.ranks[3];
  result[R_CONDITION].real = spread.condition;
  result[R_RESIDUAL].real = spread.residual;
  result[R_MEMORIZED].integer = spread.memorized;
  *saturated = spread.saturated;
  return MHAS_OK;
}

/* Each member makes all weights, the same on all. */
mhas_code probe_run_on_team(const mhas_task *task, mhas_row *row, mhas_error *error) {
  const mhas_weights_wish wish = probe_wish(task->point.values);
  probe p = probe_start(task, row);
  double *drawn = NULL;
  int64_t saturated = 0;
  mhas_code code = mhas_weights_make(&wish, task, &p.weights, error);
  if (code == MHAS_OK) {
    code = mhas_team_agree(&task->team, prepare_spread(&p, &wish, &drawn, error), error);
  }
  if (code == MHAS_OK) {
    code = fit_spread(&p, drawn, &saturated, error);
  }
  if (code == MHAS_OK) {
    probe_fill_theory(&p, saturated);
    code = mhas_team_agree(&task->team, probe_keep(&p, error), error);
  }
  mhas_free(drawn);
  probe_release(&p);
  return code;
}
