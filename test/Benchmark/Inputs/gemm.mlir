// C = A B^T with weights stored in TYPE. The driver replaces ROWS, COLS
// (outputs), DEPTH and TYPE.
heddle.mesh @m ["tp" = 1]

func.func @gemm(
    %x: tensor<1xROWSxDEPTHxf32> {heddle.binding = #heddle.binding<input "x">},
    %w: tensor<COLSxDEPTHxTYPE> {heddle.binding = #heddle.binding<param "w">})
    -> (tensor<1xROWSxCOLSxf32> {heddle.binding = #heddle.binding<output "y">}) {
  %y = heddle.linear %x, %w : (tensor<1xROWSxDEPTHxf32>, tensor<COLSxDEPTHxTYPE>) -> tensor<1xROWSxCOLSxf32>
  return %y : tensor<1xROWSxCOLSxf32>
}
