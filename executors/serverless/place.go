package serverless

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
)

// place is where a function of any size is called.
type place struct {
	problem   functions.Problem
	pattern   *regexp.Regexp
	engine    executors.Engine
	model     executors.Model
	signature pipelines.Signature // for one request
}

// newPlace reads the provider's URL template backwards: which path means which
// size.
func newPlace(p functions.Problem) (*place, error) {
	cloud := &p.Provider
	if _, err := cloud.CallURL(pipelines.FunctionSize{}); err != nil {
		return nil, fmt.Errorf("provider: %w", err)
	}
	path := "/"
	if _, rest, ok := strings.Cut(cloud.URL, "://"); ok {
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			path = strings.TrimSuffix(rest[i:], "/")
		}
	}
	known := map[string]string{
		"provider": regexp.QuoteMeta(cloud.Name), "function": regexp.QuoteMeta(p.Function.Name), "platform": "cpu|gpu",
		"size": number, "vcpu": number, "gpu_memory": number, "batch": "[0-9]+",
	}
	var b strings.Builder
	seen := map[string]bool{}
	for rest := path; rest != ""; {
		open := strings.IndexByte(rest, '{')
		if open < 0 {
			b.WriteString(regexp.QuoteMeta(rest))
			break
		}
		end := open + strings.IndexByte(rest[open:], '}')
		name := rest[open+1 : end]
		b.WriteString(regexp.QuoteMeta(rest[:open]) + "(?P<" + name + ">" + known[name] + ")")
		seen[name], rest = true, rest[end+1:]
	}
	if sized := seen["size"] && seen["platform"] || seen["vcpu"] && seen["gpu_memory"]; !sized {
		return nil, fmt.Errorf("provider: the url of provider %q does not say in its path what is called; write .../{function}-{platform}-{size}", cloud.Name)
	}
	return &place{problem: p, pattern: regexp.MustCompile("^" + b.String() + "$")}, nil
}

const number = `[0-9]+(?:\.[0-9]+)?`

// parse reads the size that a path names.
func (at *place) parse(path string) (s pipelines.FunctionSize, ok bool) {
	parts := at.pattern.FindStringSubmatch(path)
	if parts == nil {
		return s, false
	}
	s.Function = at.problem.Function.Name
	size := 0.0
	for i, name := range at.pattern.SubexpNames() {
		x, _ := strconv.ParseFloat(parts[i], 64) // words are 0
		switch name {
		case "platform":
			s.Platform = parts[i]
		case "size":
			size = x
		case "vcpu":
			s.VCPU = x
		case "gpu_memory":
			s.GPUMemory = x
		}
	}
	switch {
	case s.Platform == "" && s.GPUMemory > 0:
		s.Platform = "gpu"
	case s.Platform == "":
		s.Platform = "cpu"
	case s.Platform == "cpu" && size > 0:
		s.VCPU = size
	case size > 0:
		s.GPUMemory = size
	}
	return s, true
}

func lastSlash(path string) int { return strings.LastIndexByte(path, '/') }
