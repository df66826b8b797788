//===- HeddleAttrs.td - Meshes, shardings, bindings -*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_HEDDLEATTRS_TD
#define HEDDLE_DIALECT_HEDDLE_IR_HEDDLEATTRS_TD

include "heddle/Dialect/Heddle/IR/HeddleDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/IR/EnumAttr.td"

class Heddle_Attr<string cppName, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Heddle_Dialect, cppName, traits> {
  let mnemonic = attrMnemonic;
}

def Heddle_AxisRef : Heddle_Attr<"AxisRef", "axis"> {
  let summary = "a mesh axis or a part of one";
  let description = [{
    `tp` is the whole axis. `tp:(2)4` is the sub-axis of size 4 that remains
    when the `2` major coordinates are split off: with an axis of size 16, rank
    coordinate c has sub-coordinate `(c / 2) mod 4`, where 2 = 16 / (2 * 4) is
    the extent of what is minor to it. Sub-axes are written as in Shardy.

    **Constraints:** the sizes are positive; `pre * size` divides the axis size
    (checked where the mesh is known).
  }];
  let parameters = (ins StringRefParameter<"axis name">:$name,
                        "int64_t":$preSize, "int64_t":$subSize);
  let builders = [AttrBuilder<(ins "::llvm::StringRef":$name), [{
    return $_get($_ctxt, name, 1, 0);
  }]>];
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// True for a whole axis.
    bool isFull() const { return getSubSize() == 0; }
  }];
}

def Heddle_MapKind : I32EnumAttr<"MapKind", "how units are dealt to ranks", [
  I32EnumAttrCase<"Block", 0, "block">,
  I32EnumAttrCase<"Balanced", 1, "balanced">,
  I32EnumAttrCase<"Cyclic", 2, "cyclic">,
  I32EnumAttrCase<"Zigzag", 3, "zigzag">,
  I32EnumAttrCase<"Table", 4, "table">,
  I32EnumAttrCase<"Data", 5, "data">]> {
  let cppNamespace = "::mlir::heddle";
  let genSpecializedAttr = 0;
}

def Heddle_DimSharding : Heddle_Attr<"DimSharding", "dim"> {
  let summary = "how one dimension lies over ranks";
  let description = [{
    `{axis, …, unit = U, map = M}`: axes major to minor; the unit that is never
    cut (a head, a quantisation block, an expert) in elements; and the map from
    units to slots. With n = ceil(size / U) units and p ranks:

    - `block` (default): rank r holds units [r*s, (r+1)*s) with s = ceil(n / p);
    - `balanced`: the first n mod p ranks hold ceil(n / p) units, the others
      one less, all have room for ceil(n / p);
    - `cyclic(b)`: blocks of b units are dealt round robin;
    - `zigzag`: 2p blocks; rank r holds blocks r and 2p-1-r;
    - `table @t`: row r of the `heddle.table` lists the units of rank r, -1 is
      padding, repetition is replication;
    - `data @t`: as `table`, values read when weights are loaded.

    The local extent is always slots * U: one shape for all ranks.

    **Constraints:** (C1) unit >= 1; (C2) cyclic block >= 1; (C3) a map other
    than `block` needs at least one axis; (C4) no axis twice.
  }];
  let parameters = (ins ArrayRefParameter<"AxisRefAttr">:$axes,
                        "int64_t":$unit, "MapKind":$map, "int64_t":$block,
                        "::mlir::FlatSymbolRefAttr":$table);
  let builders = [
    AttrBuilder<(ins), [{
      return $_get($_ctxt, ::llvm::ArrayRef<AxisRefAttr>{}, 1, MapKind::Block,
                   1, ::mlir::FlatSymbolRefAttr());
    }]>,
    AttrBuilder<(ins "::llvm::ArrayRef<AxisRefAttr>":$axes, "int64_t":$unit), [{
      return $_get($_ctxt, axes, unit, MapKind::Block, 1,
                   ::mlir::FlatSymbolRefAttr());
    }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isReplicated() const { return getAxes().empty(); }
    /// The same axes and map with another unit.
    DimShardingAttr withUnit(int64_t unit) const;
  }];
}

def Heddle_PartialKind : I32EnumAttr<"PartialKind", "pending reduction", [
  I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">]> {
  let cppNamespace = "::mlir::heddle";
  let genSpecializedAttr = 0;
}

def Heddle_PartialKindAttr : EnumAttr<Heddle_Dialect, Heddle_PartialKind, "reduction"> {
  let assemblyFormat = "$value";
}

def Heddle_Sharding : Heddle_Attr<"Sharding", "sharding", [
    DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "layout of a global tensor over a mesh (a tensor encoding)";
  let description = [{
    `#heddle.sharding<@mesh, [{dp}, {}, {tp, unit = 64} ], partial = sum{ep}>`:
    one `#heddle.dim` per dimension and, optionally, the axes over which each
    rank holds only one term of a pending reduction, the type it accumulates in
    and the type it is sent in (`acc f32 wire bf16`; f32 when not written).

    **Constraints:** (C1) one entry per dimension; (C2) an axis (or
    overlapping sub-axes) appears at most once over dimensions and partial;
    (C3) a block-quantised innermost dimension is cut between blocks only: its
    unit is a multiple of the block.
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$mesh,
                        ArrayRefParameter<"DimShardingAttr">:$dims,
                        ArrayRefParameter<"AxisRefAttr">:$partialAxes,
                        "PartialKind":$partialKind,
                        "::mlir::Type":$wire);
  let builders = [
    AttrBuilder<(ins "::mlir::FlatSymbolRefAttr":$mesh,
                     "::llvm::ArrayRef<DimShardingAttr>":$dims), [{
      return $_get($_ctxt, mesh, dims, ::llvm::ArrayRef<AxisRefAttr>{},
                   PartialKind::Sum, ::mlir::Type());
    }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isPartial() const { return !getPartialAxes().empty(); }
    /// True when every rank holds the whole, complete tensor.
    bool isReplicated() const;
    /// The same layout without a pending reduction.
    ShardingAttr withoutPartial() const;
    ShardingAttr withPartial(::llvm::ArrayRef<AxisRefAttr> axes) const;
    ShardingAttr withDims(::llvm::ArrayRef<DimShardingAttr> dims) const;
    static ShardingAttr getReplicated(::mlir::FlatSymbolRefAttr mesh,
                                      int64_t rank);
  }];
}

def Heddle_Packing : Heddle_Attr<"Packing", "packing", [
    DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "storage format of a local parameter (a tensor encoding)";
  let description = [{
    `#heddle.packing<"panel16@1">`: how the rows x columns of the two innermost
    dimensions lie in memory, by the name of the runtime's format
    (heddle_rt/packing.h). A tensor without encoding is row major.

    - `panel16@1`: panels of 16 rows (the last one padded with zeros). Of
      16-bit floats a panel holds the columns in order, 16 elements each. Of
      quantised elements it holds the blocks of 32 columns in order, a block the
      scales of its 16 rows as f16, for q4_1 their minima as f16, then words of
      four consecutive columns of each row: q8_0 one byte an element, plus 128;
      q4_0 and q4_1 a nibble an element, low nibbles columns 8g to 8g + 3, high
      nibbles 8g + 4 to 8g + 7 of word group g. As many bytes as 16 rows have.

    **Constraints:** (C1) the format is known; (C2) the tensor has rank 2 or
    more and elements that the format can hold (f16, bf16, q4_0, q4_1, q8_0).
  }];
  let parameters = (ins StringRefParameter<"format name">:$format);
  let assemblyFormat = "`<` $format `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static constexpr ::llvm::StringLiteral kPanel16 = "panel16@1";
    static constexpr ::llvm::StringLiteral kRowMajor = "row_major@1";
    /// Rows that are stored together.
    static constexpr int64_t kPanelRows = 16;
    /// True for element types that panels can hold.
    static bool canHold(::mlir::Type elementType);
  }];
}

def Heddle_RankTable : Heddle_Attr<"RankTable", "rank_table"> {
  let summary = "integers that differ by rank";
  let description = [{
    `#heddle.rank_table<{tp}, [[0, 1], [1, -1]]>`: the row is the coordinate
    over the axes (row major). All that makes one rank's local program differ
    from another's is written in such tables; no axes and one row means that all
    ranks agree.

    **Constraints:** (C1) rows have the same length; (C2) there is at least one
    row, and exactly one if there are no axes.
  }];
  let parameters = (ins ArrayRefParameter<"AxisRefAttr">:$axes,
                        "int64_t":$rows, "int64_t":$cols,
                        ArrayRefParameter<"int64_t">:$values);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t at(int64_t row, int64_t col) const {
      return getValues()[row * getCols() + col];
    }
    /// True when all rows are equal.
    bool isUniform() const;
    /// True when every row is 0, 1, …, cols - 1.
    bool isIdentity() const;
    /// True when some entry is negative.
    bool hasPadding() const;
  }];
}

def Heddle_KeyMethod : I32EnumAttr<"KeyMethod", "how spread keys meet queries", [
  I32EnumAttrCase<"Ring", 0, "ring">, I32EnumAttrCase<"Merge", 1, "merge">]> {
  let cppNamespace = "::mlir::heddle";
  let genSpecializedAttr = 0;
}

def Heddle_Keys : Heddle_Attr<"Keys", "keys"> {
  let summary = "how keys that are spread over ranks meet the queries";
  let description = [{
    `#heddle.keys<ring {cp}>`: keys and values lie over cp as the queries do.
    Queries stay; blocks of keys and values go from rank to rank, and the partial
    results are merged (Ring Attention, Liu et al., arXiv:2310.01889).

    `#heddle.keys<merge {cp}>`: each block of a cache lies over cp. Every rank has
    all queries and attends to the keys that it has; the partial results are
    gathered and merged, in order of ranks. Without this attribute every rank has
    all keys of its sequences.

    **Constraints:** (C1) there is an axis.
  }];
  let parameters = (ins "KeyMethod":$method,
                        ArrayRefParameter<"AxisRefAttr">:$axes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Heddle_BindingKind : I32EnumAttr<"BindingKind", "what a value is to a host", [
  I32EnumAttrCase<"Param", 0, "param">, I32EnumAttrCase<"Input", 1, "input">,
  I32EnumAttrCase<"State", 2, "state">, I32EnumAttrCase<"Output", 3, "output">]> {
  let cppNamespace = "::mlir::heddle";
  let genSpecializedAttr = 0;
}

def Heddle_Binding : Heddle_Attr<"Binding", "binding"> {
  let summary = "what a function argument or result is to the host";
  let description = [{
    `#heddle.binding<param "model.layers.{i}.mlp.up_proj.weight" layers [0, 1]>`
    names a weight by its Hugging Face name; `{i}` stands for the layer number,
    and dimension 0 of the tensor runs over `layers`. `gguf "blk.{i}.ffn_up"`
    gives the name in GGUF files, `rotary_rows H` says that GGUF files store its
    rows interleaved per rotary pair, for H heads. `scale` and `offset` say how
    random weights are drawn (normal; default 0.02 and 0). `input`, `state` and
    `output` name tensors that hosts write, keep and read; a state's `fill` is
    the 32-bit pattern that it starts with. Layers of several kinds have stacks of
    one name, which their `layers` tell apart.

    **Constraints:** (C1) `layers` and `{i}` go together, on parameters only;
    (C2) the name is not empty.
  }];
  let parameters = (ins "BindingKind":$kind, StringRefParameter<"">:$name,
                        ArrayRefParameter<"int64_t">:$layers,
                        StringRefParameter<"">:$ggufName,
                        "int64_t":$rotaryHeads, APFloatParameter<"">:$scale,
                        APFloatParameter<"">:$offset, "int64_t":$fill);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// What tells it from the other bindings of a program: kind, name, layers.
    std::string getIdentity() const;
  }];
  let builders = [AttrBuilder<(ins "BindingKind":$kind, "::llvm::StringRef":$name), [{
    return $_get($_ctxt, kind, name, ::llvm::ArrayRef<int64_t>{}, "", 0,
                 ::llvm::APFloat(0.02), ::llvm::APFloat(0.0), 0);
  }]>];
}

def Heddle_RopeScaling : I32EnumAttr<"RopeScaling", "scaling of rotary frequencies", [
  I32EnumAttrCase<"None", 0, "none">, I32EnumAttrCase<"Linear", 1, "linear">,
  I32EnumAttrCase<"Llama3", 2, "llama3">]> {
  let cppNamespace = "::mlir::heddle";
  let genSpecializedAttr = 0;
}

def Heddle_Rope : Heddle_Attr<"Rope", "rope"> {
  let summary = "rotary frequencies";
  let description = [{
    `#heddle.rope<dim 64 theta 1.0e+04>`: inverse frequency i is
    theta^(-2i/dim) (Su et al., RoFormer, arXiv:2104.09864). `linear F` divides
    all by F (position interpolation, arXiv:2306.15595). `llama3 F low L high H
    original P` is Llama 3.1's rule: wavelengths above P/L are divided by F,
    those below P/H are kept, between them the two are blended linearly.

    **Constraints:** (C1) dim is positive and even; (C2) theta > 0; (C3) factor
    > 0; (C4) for llama3, 0 < low < high and P > 0.
  }];
  let parameters = (ins "int64_t":$dim, APFloatParameter<"">:$theta,
                        "RopeScaling":$scaling, APFloatParameter<"">:$factor,
                        APFloatParameter<"">:$lowFactor, APFloatParameter<"">:$highFactor,
                        "int64_t":$originalPositions);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The dim / 2 inverse frequencies, in double.
    ::llvm::SmallVector<double> inverseFrequencies() const;
  }];
}

def Heddle_Alibi : Heddle_Attr<"Alibi", "alibi"> {
  let summary = "slopes of linear biases";
  let description = [{
    `#heddle.alibi<heads 12 bias 8.0e+00>`: slopes of attention with linear
    biases (Press et al., arXiv:2108.12409). For a power of two of heads, slope i
    is 2^(-bias (i + 1) / heads). Otherwise the first P are those of the largest
    power of two P below, and the others every second one of 2 P.

    **Constraints:** (C1) heads is positive; (C2) bias is positive and finite.
  }];
  let parameters = (ins "int64_t":$heads, APFloatParameter<"">:$bias);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The slope of each head.
    ::llvm::SmallVector<double> slopes() const;
  }];
}

def Heddle_Consecutive : Heddle_Attr<"Consecutive", "consecutive"> {
  let summary = "a promise about an input of positions";
  let description = [{
    `#heddle.consecutive<below 4096 within "documents">` on an input of positions,
    B x T: those that are not negative are below 4096, and those of two tokens of
    one sequence with the same number in the input "documents" are as far apart as
    the tokens are. Without `within` that holds for any two tokens of a sequence.
    Partition leaves out the hops of a ring that a mask empties then, and keeps
    the promise on the local function only if it relied on it; the runtime
    refuses inputs that break it.

    **Constraints:** (C1) below is positive and fits 32 bits.
  }];
  let parameters = (ins "int64_t":$below,
                        OptionalParameter<"::mlir::StringAttr">:$within);
  let assemblyFormat = "`<` `below` $below (`within` $within^)? `>`";
  let genVerifyDecl = 1;
}

def Heddle_GluKind : I32EnumAttr<"GluKind", "activation of a gated unit", [
  I32EnumAttrCase<"Silu", 0, "silu">, I32EnumAttrCase<"Gelu", 1, "gelu">,
  I32EnumAttrCase<"GeluTanh", 2, "gelu_tanh">, I32EnumAttrCase<"Relu", 3, "relu">]> {
  let cppNamespace = "::mlir::heddle";
}

#endif // HEDDLE_DIALECT_HEDDLE_IR_HEDDLEATTRS_TD
