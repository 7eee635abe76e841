// The training objective: weighted cross entropy over the supervised slots of the blocks.
//   L = sum_k w_k CE_k / sum_k w_k over the slots k = 1..block-1 of all blocks
// Weights: w_k = exp(-(k-1)/gamma) (DFlash, section 2), or D-PACE (arXiv 2605.18810): with s_k = (1
// - a) p_k + a, p_k the label's probability, w_k = sum_{j>=k} s_1 ... s_j, taken as constants.
#pragma once

#include <torch/torch.h>

#include "nn/drafter.h"
#include "nn/files/head_subset.h"

namespace headrace {

struct ObjectiveOptions {
  double gamma = 4;
  double dpace = 0;                    // a, 0 < a <= 1; 0: weights by gamma
  const HeadSubset* subset = nullptr;  // null: the whole head
};

struct ObjectiveResult {
  torch::Tensor numerator;  // scalar fp32, differentiable: sum of w_k CE_k
  double denominator = 0;   // sum of w_k; reduced over replicas before it divides
  std::vector<double> accepted,
      counted;  // [block-1]: slots whose argmax is the label / slots supervised, teacher-forced
};

// hidden: [rows, anchors, block, H] from Drafter::forward. Labels are the data's tokens: slot k of
// anchor a predicts token a + k where a + k < row length. The head is frozen. Logits are computed
// in chunks and never stored whole.
ObjectiveResult objective(const torch::Tensor& hidden, const DraftBatch& batch,
                          const torch::Tensor& head, const ObjectiveOptions& options);

// 1 + sum_k prod_{j<=k} alpha_j: expected tokens a verify pass from per-slot acceptance.
double expected_tau(const std::vector<double>& alpha);

}  // namespace headrace
