package onnx

import "slices"

// known lists the attributes of each operator that are understood. Every other attribute may
// change the result and is refused.
var known = map[string][]string{
	"Conv":     {"kernel_shape", "strides", "pads", "dilations", "group", "auto_pad"},
	"MaxPool":  {"kernel_shape", "strides", "pads", "dilations", "auto_pad", "ceil_mode", "storage_order"},
	"Gemm":     {"alpha", "beta", "transA", "transB"},
	"Softmax":  {"axis"},
	"Flatten":  {"axis"},
	"Reshape":  {"allowzero"},
	"Constant": {"value"},
}

func (o operands) refuseUnknownAttributes() error {
	for _, a := range o.node.Attributes {
		allowed, supported := known[o.node.Op]
		if supported && !slices.Contains(allowed, a.Name) {
			return o.errorf("attribute %q is not supported", a.Name)
		}
	}
	return nil
}

func (o operands) attribute(name string) *Attribute {
	for _, a := range o.node.Attributes {
		if a.Name == name {
			return a
		}
	}
	return nil
}

func (o operands) int(name string, otherwise int64) int64 {
	if a := o.attribute(name); a != nil {
		return a.Int
	}
	return otherwise
}

func (o operands) float(name string, otherwise float32) float32 {
	if a := o.attribute(name); a != nil {
		return a.Float
	}
	return otherwise
}

// pair reads an attribute of two positive integers.
func (o operands) pair(name string, otherwise [2]int, least int64) ([2]int, error) {
	a := o.attribute(name)
	if a == nil {
		return otherwise, nil
	}
	const most = 1 << 12
	if len(a.Ints) != 2 || min(a.Ints[0], a.Ints[1]) < least || max(a.Ints[0], a.Ints[1]) > most {
		return otherwise, o.errorf("attribute %s is %v; two integers of at least %d are needed (only two-dimensional windows are supported)", name, a.Ints, least)
	}
	return [2]int{int(a.Ints[0]), int(a.Ints[1])}, nil
}

// window reads what Conv and MaxPool have in common.
func (o operands) window(kernel [2]int) (Window, error) {
	w := Window{Kernel: kernel}
	if pad := string(o.attribute("auto_pad").GetText()); pad != "" && pad != "NOTSET" && pad != "VALID" {
		return w, o.errorf("auto_pad %q is not supported; export the model with explicit pads", pad)
	}
	var err error
	if w.Kernel, err = o.pair("kernel_shape", kernel, 1); err != nil {
		return w, err
	}
	if w.Stride, err = o.pair("strides", [2]int{1, 1}, 1); err != nil {
		return w, err
	}
	if w.Dilation, err = o.pair("dilations", [2]int{1, 1}, 1); err != nil {
		return w, err
	}
	if a := o.attribute("pads"); a != nil {
		p := a.Ints
		if len(p) != 4 || p[0] != p[2] || p[1] != p[3] || min(p[0], p[1]) < 0 || max(p[0], p[1]) > 1<<12 {
			return w, o.errorf("pads %v are not supported; they must be the same on both sides", p)
		}
		w.Pad = [2]int{int(p[0]), int(p[1])}
	}
	return w, nil
}

func (o operands) image() (int, []int, error) {
	at, dims, err := o.value(0)
	if err == nil && len(dims) != 3 {
		err = o.errorf("its input has shape %v without batch; channels, height and width are needed", dims)
	}
	return at, dims, err
}

func (o operands) conv() error {
	x, in, err := o.image()
	if err != nil {
		return err
	}
	weights, err := o.weights(1, 4)
	if err != nil {
		return err
	}
	if g := o.int("group", 1); g != 1 {
		return o.errorf("group %d is not supported; only ordinary convolutions (group 1) are", g)
	}
	if weights.Dims[1] != in[0] {
		return o.errorf("its weights take %d channels but its input has %d", weights.Dims[1], in[0])
	}
	w, err := o.window([2]int{weights.Dims[2], weights.Dims[3]})
	if err != nil {
		return err
	}
	if w.Kernel != [2]int{weights.Dims[2], weights.Dims[3]} {
		return o.errorf("kernel_shape %v does not match weights of shape %v", w.Kernel, weights.Dims)
	}
	bias, err := o.bias(2, weights.Dims[0])
	if err != nil {
		return err
	}
	out := []int{weights.Dims[0], w.Out(0, in[1]), w.Out(1, in[2])}
	return o.step("Conv", out, w, x, o.byName[weights.Name], bias)
}

// bias returns constant input i of n elements, or zeros where it is left out.
func (o operands) bias(i, n int) (int, error) {
	if !o.has(i) {
		return o.hidden(" bias", []int{n}, make([]float32, n)), nil
	}
	b, err := o.weights(i, 1)
	if err != nil {
		return 0, err
	}
	if b.Dims[0] != n {
		return 0, o.errorf("its bias has %d elements for %d outputs", b.Dims[0], n)
	}
	return o.byName[b.Name], nil
}

func (o operands) maxPool() error {
	x, in, err := o.image()
	if err != nil {
		return err
	}
	if o.int("ceil_mode", 0) != 0 || o.int("storage_order", 0) != 0 || len(o.node.Outputs) > 1 {
		return o.errorf("ceil_mode, storage_order and indices are not supported")
	}
	if o.attribute("kernel_shape") == nil {
		return o.errorf("kernel_shape is missing")
	}
	w, err := o.window([2]int{})
	if err != nil {
		return err
	}
	if w.Dilation != [2]int{1, 1} || w.Pad[0] >= w.Kernel[0] || w.Pad[1] >= w.Kernel[1] {
		return o.errorf("dilations, and pads as large as the kernel, are not supported")
	}
	return o.step("MaxPool", []int{in[0], w.Out(0, in[1]), w.Out(1, in[2])}, w, x)
}

func (o operands) globalAveragePool() error {
	x, in, err := o.image()
	if err != nil {
		return err
	}
	return o.step("GlobalAveragePool", []int{in[0], 1, 1}, Window{}, x)
}

// dense is Gemm or MatMul with constant weights. It folds alpha, beta and the
// transposition into new constants.
func (o operands) dense() error {
	x, in, err := o.value(0)
	if err != nil {
		return err
	}
	if len(in) != 1 {
		return o.errorf("its input has shape %v without batch; one dimension is needed (put a Flatten before it)", in)
	}
	weights, err := o.weights(1, 2)
	if err != nil {
		return err
	}
	if o.int("transA", 0) != 0 {
		return o.errorf("transA is not supported: the first dimension is the batch")
	}
	k, n := weights.Dims[0], weights.Dims[1]
	turned := o.int("transB", 0) != 0
	if turned {
		k, n = n, k
	}
	if k != in[0] {
		return o.errorf("its weights take %d elements but its input has %d", k, in[0])
	}
	alpha, beta := o.float("alpha", 1), o.float("beta", 1)
	folded := make([]float32, k*n)
	for i := range k {
		for j := range n {
			from := i*n + j
			if turned {
				from = j*k + i
			}
			folded[i*n+j] = alpha * weights.Const[from]
		}
	}
	bias := make([]float32, n)
	if o.node.Op == "Gemm" && o.has(2) {
		at, err := o.any(2)
		if err != nil {
			return err
		}
		full, err := o.broadcast(at, []int{n})
		if err != nil {
			return err
		}
		for j, b := range full {
			bias[j] = beta * b
		}
	}
	return o.step("Gemm", []int{n}, Window{}, x, o.hidden(" weights", []int{k, n}, folded), o.hidden(" bias", []int{n}, bias))
}

func (o operands) binary() error {
	a, err := o.any(0)
	if err != nil {
		return err
	}
	b, err := o.any(1)
	if err != nil {
		return err
	}
	// Both operators commute, so a constant can stand second.
	if o.program.Values[a].Const != nil {
		a, b = b, a
	}
	dims := o.program.Values[a].Dims
	switch {
	case o.program.Values[a].Const != nil:
		return o.errorf("both inputs are constants")
	case o.program.Values[b].Const != nil:
		full, err := o.broadcast(b, dims)
		if err != nil {
			return err
		}
		b = o.hidden(" constant", dims, full)
	case !equalDims(dims, o.program.Values[b].Dims):
		return o.errorf("shapes %v and %v differ; only constants are broadcast", dims, o.program.Values[b].Dims)
	}
	return o.step(o.node.Op, dims, Window{}, a, b)
}

// broadcast writes constant value at out in full for the shape dims of one
// request, by the usual rule: shapes are aligned at their ends, and an extent
// of one is repeated. A leading batch extent of one is passed over.
func (o operands) broadcast(at int, dims []int) ([]float32, error) {
	v := o.program.Values[at]
	if v.Const == nil {
		return nil, o.errorf("input %q must be a constant", v.Name)
	}
	shape := v.Dims
	if len(shape) == len(dims)+1 && shape[0] == 1 {
		shape = shape[1:]
	}
	if len(shape) > len(dims) {
		return nil, o.errorf("constant %q of shape %v does not fit shape %v", v.Name, v.Dims, dims)
	}
	// strides of the constant along each dimension of dims; 0 repeats.
	strides := make([]int, len(dims))
	step := 1
	for i := len(shape) - 1; i >= 0; i-- {
		j := i + len(dims) - len(shape)
		switch shape[i] {
		case dims[j]:
			strides[j] = step
		case 1:
		default:
			return nil, o.errorf("constant %q of shape %v does not fit shape %v", v.Name, v.Dims, dims)
		}
		step *= shape[i]
	}
	size := 1
	for _, d := range dims {
		size *= d
	}
	if o.derived += size; o.derived > maxDerived {
		return nil, o.errorf("constants written out in full take more than %d elements; the network is too large for this engine", maxDerived)
	}
	full := make([]float32, size)
	for i := range full {
		from, rest := 0, i
		for j := len(dims) - 1; j >= 0; j-- {
			from += rest % dims[j] * strides[j]
			rest /= dims[j]
		}
		full[i] = v.Const[from]
	}
	return full, nil
}

func (o operands) softmax() error {
	x, dims, err := o.value(0)
	if err != nil {
		return err
	}
	axis := o.int("axis", -1)
	if len(dims) != 1 || axis != -1 && axis != 1 {
		return o.errorf("only one dimension beside the batch is supported, along that dimension; its input has shape %v and axis is %d", dims, axis)
	}
	return o.step("Softmax", dims, Window{}, x)
}

func (o operands) reshape() error {
	x, dims, err := o.value(0)
	if err != nil {
		return err
	}
	size := o.program.Values[x].Len()
	if o.node.Op == "Flatten" {
		if axis := o.int("axis", 1); axis != 1 {
			return o.errorf("axis %d is not supported; only 1 keeps the batch", axis)
		}
		return o.step("Reshape", []int{size}, Window{}, x)
	}
	if !o.has(1) || o.shapes[o.node.Inputs[1]] == nil {
		return o.errorf("its shape must be a constant")
	}
	to, err := o.target(o.shapes[o.node.Inputs[1]], dims, size)
	if err != nil {
		return err
	}
	return o.step("Reshape", to, Window{}, x)
}

// target works out the shape of a Reshape that keeps the batch first.
func (o operands) target(shape []int64, dims []int, size int) ([]int, error) {
	bad := func() error {
		return o.errorf("shape %v does not fit an input of shape %v with the batch kept first", shape, dims)
	}
	if len(shape) == 0 || shape[0] != 0 && shape[0] != -1 || o.int("allowzero", 0) != 0 {
		return nil, bad()
	}
	to := make([]int, len(shape)-1)
	free, product := -1, 1
	for i, d := range shape[1:] {
		switch {
		case d == -1 && free < 0 && shape[0] == 0:
			free, to[i] = i, 1
		case d == 0 && i < len(dims):
			to[i] = dims[i]
		case d > 0 && d <= int64(size):
			to[i] = int(d)
		default:
			return nil, bad()
		}
		if product *= to[i]; product > size {
			return nil, bad()
		}
	}
	if free >= 0 && product > 0 {
		to[free] = size / product
		product *= to[free]
	}
	if product != size {
		return nil, bad()
	}
	return to, nil
}
