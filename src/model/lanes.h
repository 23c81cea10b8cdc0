/*
 * The model's loops that BLAS has no routine for, and products too small for it, compiled for several widths of the
 * vector unit; the widest that this processor has is picked at run time. Every level gives the same bits: sums have the
 * same order in all of them, exp is made of the same multiplications and additions, and nothing is contracted.
 *
 * R rows of n numbers; a stride is from row to row.
 */
#ifndef MHASWEEP_MODEL_LANES_H
#define MHASWEEP_MODEL_LANES_H

#include <stdbool.h>
#include <stdint.h>

enum { LANES_PRODUCT_DEPTH = 64 };

/* The constants of one update by Adam: see `update` in network.h. */
#define LANES_TABLE(number)                                                                                        \
  {                                                                                                                \
    /* xt (d, n) = x (n, d) turned. */                                                                             \
    void (*turn)(int64_t n, int64_t d, const number *x, number *xt);                                               \
    /* theta (R, n, packed) = softmax(factor logits), row by row; theta may be logits. sums (R), if not NULL: each \
     * row's sum of exp(factor (logit - largest logit)). */                                                        \
    void (*softmax)(int64_t R, int64_t n, number factor, const number *logits, int64_t stride, number *theta,      \
                    number *sums);                                                                                 \
    /* d (R, n, with a stride): gradients with respect to theta become those with respect to the logits. */        \
    void (*softmax_back)(int64_t R, int64_t n, number factor, const number *theta, number *d, int64_t stride);     \
    /* out (R): the products of rows of a (packed) and b. */                                                       \
    void (*dots)(int64_t R, int64_t n, const number *a, const number *b, int64_t stride, number *out);             \
    /* Backward through softmax and dots: for out_r = sum_i theta_ri s_ri and its gradient d_out, theta_ri becomes \
     * d_out_r theta_ri, and d_logits (with a stride) factor d_out_r theta_ri (s_ri - out_r). */                   \
    void (*dots_back)(int64_t R, int64_t n, number factor, const number *s, int64_t s_stride, const number *out,   \
                      const number *d_out, number *theta, number *d_logits, int64_t stride);                       \
    /* sum (R, n, with a stride) += a (packed). */                                                                 \
    void (*add)(int64_t R, int64_t n, const number *a, number *sum, int64_t stride);                               \
    void (*adam)(int64_t count, number rate, number root, number keep1, number take1, number keep2, number take2,  \
                 number epsilon, const number *gradient, number *first, number *second, number *parameter);        \
    /* c (m, n) = alpha op(a) op(b) + beta c, for k <= LANES_PRODUCT_DEPTH: as gemm in real.h, which asks for it   \
     * where a call of BLAS would take longer than the work. c is not read if beta is 0. */                        \
    void (*product)(bool a_turned, bool b_turned, int64_t m, int64_t n, int64_t k, number alpha, const number *a,  \
                    int64_t lda, const number *b, int64_t ldb, number beta, number *c, int64_t ldc);               \
    /* c (R, k) = a (R, n) b^T, or +=, for b (k, n), all packed: sums as in dots. n is a multiple of 64 bytes. */  \
    void (*turned)(bool adds, int64_t R, int64_t k, int64_t n, const number *a, const number *b, number *c);       \
    /* z (n) becomes sigma(z), by place of mhas_neuron; and p (n) becomes p sigma'(z), where s = sigma(z). */      \
    void (*neuron[3])(int64_t n, number * z);                                                                      \
    void (*slope[3])(int64_t n, const number *s, number *p);                                                       \
  }

typedef struct lanes_float LANES_TABLE(float) lanes_float;
typedef struct lanes_double LANES_TABLE(double) lanes_double;

extern const lanes_float mhas_lanes_plain_float;
extern const lanes_double mhas_lanes_plain_double;
#if MHASWEEP_X86_LANES
extern const lanes_float mhas_lanes_avx2_float, mhas_lanes_avx512_float;
extern const lanes_double mhas_lanes_avx2_double, mhas_lanes_avx512_double;
#endif

typedef enum lanes_level { LANES_PLAIN, LANES_AVX2, LANES_AVX512, LANES_LEVELS } lanes_level;

lanes_level mhas_lanes_level(void); /* the best one here */
const lanes_float *mhas_lanes_float(lanes_level level);
const lanes_double *mhas_lanes_double(lanes_level level);
/* Those of the best level. */
const lanes_float *mhas_lanes_here_float(void);
const lanes_double *mhas_lanes_here_double(void);

#endif
