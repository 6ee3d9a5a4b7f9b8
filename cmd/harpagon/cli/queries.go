package cli

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
	"github.com/harpagon/harpagon/sdk"
)

// mostItems bounds the made-up items of a query, for memory's sake.
const mostItems = 1 << 20

// query makes up a query of the size asked for.
func (f *inferFlags) query(ports []pipelines.Port) (sdk.Inputs, error) {
	if len(f.inputs) > 0 {
		return nil, fmt.Errorf("--size makes inputs up, and --input reads them: give one of the two")
	}
	return madeUp(ports, f.size, rand.New(rand.NewPCG(1, 1)))
}

// madeUp is a query of random items.
func madeUp(ports []pipelines.Port, size int, rng *rand.Rand) (sdk.Inputs, error) {
	if size < 1 || size > mostItems {
		return nil, fmt.Errorf("a query has between 1 and %d items, not %d", mostItems, size)
	}
	inputs := sdk.Inputs{}
	for _, p := range ports {
		if len(p.Shape) == 0 || p.Shape[0] != -1 {
			return nil, fmt.Errorf("input %q has the shape %v: only pools take queries of any size", p.Name, p.Shape)
		}
		p.Shape = append([]int64{int64(size)}, p.Shape[1:]...)
		inputs[p.Name] = randomInput(p, rng)
	}
	return inputs, nil
}

// queries draws the requests of a load whose queries have the sizes of a mix:
// each size as often as its weight says, in an order that the seed shuffles.
func (f *loadFlags) queries(d *Deps, pool string, ports []pipelines.Port) ([]sdk.Inputs, error) {
	if len(f.inputs) > 0 {
		return nil, fmt.Errorf("--sizes makes inputs up, and --input reads them: give one of the two")
	}
	mix, err := readMix(d, f.sizes, pool)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(f.options.Seed, 2))
	kept := map[int]sdk.Inputs{}
	var all []sdk.Inputs
	due, total := 0.0, mix.Total()
	for _, s := range mix {
		if s.Weight <= 0 {
			continue
		}
		if kept[s.Size], err = madeUp(ports, s.Size, rng); err != nil {
			return nil, err
		}
		for due += s.Weight / total * queriesKept; len(all) < int(math.Round(due)); {
			all = append(all, kept[s.Size])
		}
	}
	rng.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	return all, nil
}

// queriesKept is how many queries a load goes through before it repeats them, so
// that a size that one in a thousand has occurs.
const queriesKept = 4096

// readMix reads a file of sizes, or the sizes of the pool in a declaration.
func readMix(d *Deps, path, name string) (pipelines.Mix, error) {
	if strings.HasSuffix(path, ".csv") {
		src, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("--sizes: %w", err)
		}
		mix, diags := files.ReadSizes(path, src)
		if diags.HasErrors() {
			return nil, fmt.Errorf("--sizes: %w", diags)
		}
		return mix, nil
	}
	x := Declaration{Deps: d}
	doc, err := x.Document([]string{path})
	if err != nil {
		return nil, err
	}
	for _, p := range doc.Pools {
		if p.Name == name {
			return p.Mix(), nil
		}
	}
	return nil, fmt.Errorf("--sizes %s: it declares no pool %q", path, name)
}
