// Causal attention of TOKENS queries over TOKENS keys, as in a prefill of one
// chunk. The driver replaces TOKENS, HEADS, GROUPS (key/value heads), WIDTH and
// SCALE.
heddle.mesh @m ["tp" = 1]

func.func @attention(
    %q: tensor<1xTOKENSxHEADSxWIDTHxf32> {heddle.binding = #heddle.binding<input "q">},
    %k: tensor<1xTOKENSxGROUPSxWIDTHxf32> {heddle.binding = #heddle.binding<input "k">},
    %v: tensor<1xTOKENSxGROUPSxWIDTHxf32> {heddle.binding = #heddle.binding<input "v">},
    %pos: tensor<1xTOKENSxi32> {heddle.binding = #heddle.binding<input "positions">})
    -> (tensor<1xTOKENSxHEADSxWIDTHxf32> {heddle.binding = #heddle.binding<output "y">}) {
  %y = heddle.attention %q, %k, %v pos(%pos, %pos) scale SCALE causal
    : (tensor<1xTOKENSxHEADSxWIDTHxf32>, tensor<1xTOKENSxGROUPSxWIDTHxf32>, tensor<1xTOKENSxGROUPSxWIDTHxf32>, tensor<1xTOKENSxi32>, tensor<1xTOKENSxi32>) -> tensor<1xTOKENSxHEADSxWIDTHxf32>
  return %y : tensor<1xTOKENSxHEADSxWIDTHxf32>
}
