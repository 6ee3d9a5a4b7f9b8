package pipelines

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What a provider allows where its block does not say.
const (
	DefaultCallTimeout     = time.Minute
	DefaultCallAttempts    = 3
	DefaultCallConcurrency = 1000
)

// Limits of what a block may say.
const (
	maxCallTimeout     = 15 * time.Minute // the longest that common providers let a function run
	maxCallAttempts    = 10
	maxCallConcurrency = 100_000
)

// FunctionSize is one function that was deployed: the model and what it is
// given. A provider's URL names it.
type FunctionSize struct {
	Function  string
	Platform  string  // "cpu" or "gpu"
	VCPU      float64 // 0 on GPU
	GPUMemory float64 // GB; 0 on CPU
	Batch     int     // largest batch that it is sent
}

// placeholders of a URL template, in the order in which they are explained.
func placeholders() []string {
	return []string{"provider", "function", "platform", "size", "vcpu", "gpu_memory", "batch"}
}

// placeholder finds {name} in a URL template.
const placeholder = `\{([^{}]*)\}`

// address takes a URL apart into scheme, host and path.
const address = `^(https?)://([^/?#\s]+)([/?#]\S*)?$`

// CallURL is the address of a function by the provider's template, in which
// {provider}, {function}, {platform} (cpu or gpu), {size} (vCPUs or GB of GPU
// memory, whichever the platform has), {vcpu}, {gpu_memory} and {batch} stand
// for what is called. The model's resources of the Open Inference Protocol
// follow below it: inference is POST URL/infer.
func (p *Provider) CallURL(s FunctionSize) (string, error) {
	if p.URL == "" {
		return "", fmt.Errorf("provider %q has no url, so its functions cannot be called; add one, such as url = \"https://functions.example.com/v2/models/{function}-{platform}-{size}\"", p.Name)
	}
	if what := badTemplate(p.URL); what != "" {
		return "", fmt.Errorf("provider %q: %s", p.Name, what)
	}
	return regexp.MustCompile(placeholder).ReplaceAllStringFunc(p.URL, func(name string) string {
		return s.value(p, name[1:len(name)-1])
	}), nil
}

func (s FunctionSize) value(p *Provider, name string) string {
	size := s.VCPU
	if s.Platform == "gpu" {
		size = s.GPUMemory
	}
	decimal := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	switch name {
	case "provider":
		return p.Name
	case "function":
		return s.Function
	case "platform":
		return s.Platform
	case "size":
		return decimal(size)
	case "vcpu":
		return decimal(s.VCPU)
	case "gpu_memory":
		return decimal(s.GPUMemory)
	}
	return strconv.Itoa(s.Batch)
}

// CallTimeout is how long one call may take.
func (p *Provider) CallTimeout() time.Duration { return orDefault(p.Timeout, DefaultCallTimeout) }

// CallAttempts is how often a call may be sent in all.
func (p *Provider) CallAttempts() int { return orDefault(p.Attempts, DefaultCallAttempts) }

// CallConcurrency is how many calls may run at once.
func (p *Provider) CallConcurrency() int { return orDefault(p.Concurrency, DefaultCallConcurrency) }

func orDefault[T int | time.Duration](x, otherwise T) T {
	if x > 0 {
		return x
	}
	return otherwise
}

// calls checks how functions are called.
func (v *validator) calls(p *Provider, path string) {
	if p.URL != "" {
		v.template(p, path+".url")
	}
	if p.Timeout < 0 || p.Timeout > maxCallTimeout {
		v.errorf(path+".timeout", "Invalid time-out", "The longest that a call may take is above zero and at most %v.", maxCallTimeout)
	}
	if p.Attempts < 0 || p.Attempts > maxCallAttempts {
		v.errorf(path+".attempts", "Invalid number of attempts", "A call is sent between 1 and %d times; 1 never sends it again.", maxCallAttempts)
	}
	if p.Concurrency < 0 || p.Concurrency > maxCallConcurrency {
		v.errorf(path+".concurrency", "Invalid concurrency", "Between 1 and %d calls may run at once.", maxCallConcurrency)
	}
	if name := p.TokenVariable; name != "" && !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(name) {
		v.errorf(path+".token_variable", "Not an environment variable", "token_variable is the name of an environment variable, such as \"CLOUD_TOKEN\"; the token itself never stands in a file.")
	}
}

func (v *validator) template(p *Provider, path string) {
	if what := badTemplate(p.URL); what != "" {
		v.errorf(path, "Invalid address", "%s", what)
		return
	}
	has := func(name string) bool { return strings.Contains(p.URL, "{"+name+"}") }
	switch {
	case !has("function") && v.functionsOf(p) > 1:
		v.errorf(path, "One address for all functions", "Several functions run at this provider, and the address does not tell them apart; add {function}.")
	case !has("size") && !(has("vcpu") || p.VCPU.Empty()) && !(has("gpu_memory") || p.GPUMemory.Empty()), !p.VCPU.Empty() && !p.GPUMemory.Empty() && !tellsPlatforms(has):
		v.warnf(path, "One address for all sizes", "A plan chooses sizes of functions, and the address does not tell them apart; add {platform} and {size}.")
	}
	if p.TokenVariable != "" && strings.HasPrefix(p.URL, "http:") && !loopback(p.URL) {
		v.warnf(path, "Token over plain HTTP", "The provider's token would cross the network unencrypted; use https.")
	}
}

// tellsPlatforms says whether CPU and GPU functions have different addresses.
func tellsPlatforms(has func(string) bool) bool {
	return has("platform") || has("vcpu") && has("gpu_memory")
}

func (v *validator) functionsOf(p *Provider) (n int) {
	for _, f := range v.doc.Functions {
		if f.Provider == p.Name {
			n++
		}
	}
	return n
}

// badTemplate says what is wrong with a URL template, empty when nothing is.
func badTemplate(template string) string {
	names := placeholders()
	matched := regexp.MustCompile(placeholder)
	for _, m := range matched.FindAllStringSubmatch(template, -1) {
		if !slices.Contains(names, m[1]) {
			return fmt.Sprintf("the url has the placeholder {%s}; there is {%s}.%s", m[1], strings.Join(names, "}, {"), suggest(m[1], names))
		}
	}
	plain := matched.ReplaceAllString(template, "0")
	if strings.ContainsAny(plain, "{}") {
		return "the url has a brace without its counterpart; a placeholder is written {function}."
	}
	parts := regexp.MustCompile(address).FindStringSubmatch(plain)
	switch {
	case parts == nil:
		return "the url must be http://HOST/PATH or https://HOST/PATH, with placeholders such as {function}."
	case strings.Contains(parts[2], "@"):
		return "the url holds a name or password; name the environment variable that holds the token with token_variable."
	case strings.ContainsAny(parts[3], "?#"):
		return "the url has a query or fragment; /infer is added behind its path."
	}
	return ""
}

func loopback(template string) bool {
	parts := regexp.MustCompile(address).FindStringSubmatch(template)
	return parts != nil && regexp.MustCompile(`^(localhost|127\.[0-9.]+|\[::1\])(:[0-9]+)?$`).MatchString(parts[2])
}

// functionName keeps names apart that clients address alike: a pipeline as
// NAME, an application of a function as NAME/APPLICATION.
func (v *validator) functionName(f *Function, path string) {
	for _, p := range v.doc.Pipelines {
		if p.Name == f.Name {
			v.errorf(path, "Declared twice", "A pipeline is called %q as well, and clients address both by name; rename one.", f.Name)
		}
	}
}
