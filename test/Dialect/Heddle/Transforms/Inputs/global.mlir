func.func @global(%x: tensor<4xf32>) {
  return
}
