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
	MaxCallTimeout     = 15 * time.Minute // the longest that common providers let a function run
	MaxCallAttempts    = 10
	MaxCallConcurrency = 100_000
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
	if what := BadTemplate(p.URL); what != "" {
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

// badTemplate says what is wrong with a URL template, empty when nothing is.
func BadTemplate(template string) string {
	names := placeholders()
	matched := regexp.MustCompile(placeholder)
	for _, m := range matched.FindAllStringSubmatch(template, -1) {
		if !slices.Contains(names, m[1]) {
			return fmt.Sprintf("the url has the placeholder {%s}; there is {%s}.%s", m[1], strings.Join(names, "}, {"), Suggest(m[1], names))
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

func OnLoopback(template string) bool {
	parts := regexp.MustCompile(address).FindStringSubmatch(template)
	return parts != nil && regexp.MustCompile(`^(localhost|127\.[0-9.]+|\[::1\])(:[0-9]+)?$`).MatchString(parts[2])
}
