/* The outermost eigenvalues of the loss's Hessian. */
#include <math.h>

#include "experiments/optimize.h"
#include "mhasweep/eigen.h"

/* Some are asked for at once, so that one that is near the outermost cannot pass for it. */
enum { TOGETHER = 3 };

/* What products are made with: the whole Hessian, or one head's block. */
typedef struct operand {
  optimize *run;
  int64_t head;
} operand;

static mhas_code whole_product(void *context, const double *v, double *y, mhas_error *error) {
  optimize *run = ((operand *)context)->run;
  MHAS_TRY(run->task->proceed(run->task->context, error));
  return mhas_selfattention_hessian(run->model, v, y, error);
}

/* Each rank does this for its own heads, so a team cannot be asked whether to go on. */
static mhas_code block_product(void *context, const double *v, double *y, mhas_error *error) {
  const operand *block = context;
  const mhas_task *task = block->run->task;
  if (task->team.size <= 1) {
    MHAS_TRY(task->proceed(task->context, error));
  }
  mhas_selfattention_hessian_blocks(block->run->model, block->head, 1, v, y);
  return MHAS_OK;
}

static mhas_code find(optimize *run, const mhas_eigen_problem *problem, int64_t size, mhas_end end, double flops,
                      mhas_eigen *found, mhas_error *error) {
  mhas_eigen some[TOGETHER];
  int64_t products = 0;
  const mhas_code code =
      mhas_eigen_ends(problem, end, size < TOGETHER ? (int)size : TOGETHER, some, NULL, &products, error);
  run->progress.flops += (double)products * flops;
  *found = some[0];
  return code;
}

/* The least eigenvalue of the block-diagonal part: of the block of each head. */
static mhas_code find_blocks(optimize *run, mhas_eigen_problem problem, mhas_eigen *least, mhas_error *error) {
  const mhas_team *team = &run->task->team;
  const double flops = mhas_selfattention_hessian_flops(&run->shape, 1);
  const int64_t ranks = team->size > 1 ? team->size : 1;
  problem.comm = MPI_COMM_NULL;
  problem.product = block_product;
  problem.size = mhas_selfattention_numbers(&run->shape, 1);
  least->value = INFINITY;
  for (int64_t h = 0; h < (run->shape.heads + ranks - 1) / ranks; h++) { /* as many times on every rank */
    operand block = {.run = run, .head = h};
    mhas_eigen found = {.value = INFINITY};
    problem.context = &block;
    MHAS_TRY(run->task->proceed(run->task->context, error));
    MHAS_TRY(mhas_team_agree(
        team, h < run->heads ? find(run, &problem, problem.size, MHAS_SMALLEST, flops, &found, error) : MHAS_OK,
        error));
    *least = found.value < least->value ? found : *least;
  }
  return MHAS_OK;
}

/* The least of the team's, with the residual that belongs to it. */
static mhas_code least_of_team(const optimize *run, mhas_eigen *least, mhas_error *error) {
  const double mine = least->value;
  double value = -mine;
  MHAS_TRY(mhas_optimize_most(run, &value, 1, error));
  double residual = mine == -value ? least->residual : 0.0;
  MHAS_TRY(mhas_optimize_most(run, &residual, 1, error));
  *least = (mhas_eigen){.value = -value, .residual = residual};
  return MHAS_OK;
}

/*
 * Of heads held once for all, products are with vectors that are equal in all of them. Those that are not are what the
 * positive part of the Hessian does not see, so they have the eigenvalues of a block, which are below the others.
 */
mhas_code mhas_optimize_eigenvalues(optimize *run, optimize_eigenvalues *found, mhas_error *error) {
  const mhas_value *values = run->task->point.values;
  const int64_t all = mhas_selfattention_numbers(&run->shape, run->shape.heads);
  operand whole = {.run = run};
  const mhas_eigen_problem problem = {.size = run->numbers,
                                      .comm = mhas_optimize_comm(run->task),
                                      .product = whole_product,
                                      .context = &whole,
                                      .random = run->task->point.random,
                                      .tolerance = values[P_EIGEN_TOLERANCE].real,
                                      .products_most = values[P_EIGEN_PRODUCTS].integer};
  const double flops = mhas_selfattention_hessian_flops(&run->shape, run->shape.heads);
  mhas_eigen blocks = {0};
  mhas_eigen least = {0};
  mhas_eigen most = {0};
  MHAS_TRY(mhas_selfattention_linearise(run->model, run->theta, NULL, error));
  run->progress.flops += mhas_selfattention_linearise_flops(&run->shape, run->shape.heads);
  MHAS_TRY(find_blocks(run, problem, &blocks, error));
  MHAS_TRY(least_of_team(run, &blocks, error));
  MHAS_TRY(find(run, &problem, all, MHAS_LARGEST, flops, &most, error));
  if (run->shape.copies > 1) {
    least = blocks;
  } else {
    MHAS_TRY(find(run, &problem, all, MHAS_SMALLEST, flops, &least, error));
  }
  *found = (optimize_eigenvalues){.least = least.value,
                                  .least_residual = least.residual,
                                  .blocks = blocks.value,
                                  .most = most.value,
                                  .most_residual = most.residual};
  return MHAS_OK;
}
