// The training objective: weighted cross entropy over the supervised slots of the blocks.
//   L = sum_k w_k CE_k / sum_k w_k, w_k = exp(-(k-1)/gamma), k = 1..block-1   (DFlash, section 2)
#pragma once

#include <torch/torch.h>

#include "nn/drafter.h"

namespace headrace {

struct ObjectiveResult {
  torch::Tensor numerator;   // scalar fp32, differentiable: sum of w_k CE_k
  double denominator = 0;    // sum of w_k; reduced over replicas before it divides
  std::vector<double> accepted, counted;  // [block-1]: slots whose argmax is the label / slots supervised, teacher-forced
};

// hidden: [rows, anchors, block, H] from Drafter::forward. Labels are the data's tokens: slot k of anchor a predicts
// token a + k where a + k < row length. The head is frozen. Logits are computed in chunks and never stored whole.
ObjectiveResult objective(const torch::Tensor& hidden, const DraftBatch& batch, const torch::Tensor& head, double gamma);

// 1 + sum_k prod_{j<=k} alpha_j: expected tokens a verify pass from per-slot acceptance.
double expected_tau(const std::vector<double>& alpha);

}  // namespace headrace
