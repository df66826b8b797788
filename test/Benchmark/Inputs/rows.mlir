// Row programs: each op of a function fuses into one kernel, which reads its
// inputs and writes its outputs once. The driver replaces ROWS and COLS.
heddle.mesh @m ["tp" = 1]

// The residual and the norm of the next block: reads two, writes two.
func.func @residual_norm(
    %x: tensor<1xROWSxCOLSxf32> {heddle.binding = #heddle.binding<input "x">},
    %y: tensor<1xROWSxCOLSxf32> {heddle.binding = #heddle.binding<input "y">},
    %w: tensor<COLSxf32> {heddle.binding = #heddle.binding<param "w">})
    -> (tensor<1xROWSxCOLSxf32> {heddle.binding = #heddle.binding<output "sum">},
        tensor<1xROWSxCOLSxf32> {heddle.binding = #heddle.binding<output "norm">}) {
  %s = heddle.add %x, %y : (tensor<1xROWSxCOLSxf32>, tensor<1xROWSxCOLSxf32>) -> tensor<1xROWSxCOLSxf32>
  %n = heddle.rms_norm %s, %w eps 1.0e-5 : (tensor<1xROWSxCOLSxf32>, tensor<COLSxf32>) -> tensor<1xROWSxCOLSxf32>
  return %s, %n : tensor<1xROWSxCOLSxf32>, tensor<1xROWSxCOLSxf32>
}

// A gated unit: reads two, writes one.
func.func @gate(
    %x: tensor<1xROWSxCOLSxf32> {heddle.binding = #heddle.binding<input "x">},
    %y: tensor<1xROWSxCOLSxf32> {heddle.binding = #heddle.binding<input "y">})
    -> (tensor<1xROWSxCOLSxf32> {heddle.binding = #heddle.binding<output "z">}) {
  %z = heddle.glu silu %x, %y : (tensor<1xROWSxCOLSxf32>, tensor<1xROWSxCOLSxf32>) -> tensor<1xROWSxCOLSxf32>
  return %z : tensor<1xROWSxCOLSxf32>
}
