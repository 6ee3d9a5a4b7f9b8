package pipelines

import (
	"regexp"
	"strings"
)

// calls checks how functions are called.
func (v *validator) calls(p *Provider, path string) {
	if p.URL != "" {
		v.template(p, path+".url")
	}
	v.managed(p, path)
	if p.Timeout < 0 || p.Timeout > MaxCallTimeout {
		v.errorf(path+".timeout", "Invalid time-out", "The longest that a call may take is above zero and at most %v.", MaxCallTimeout)
	}
	if p.Attempts < 0 || p.Attempts > MaxCallAttempts {
		v.errorf(path+".attempts", "Invalid number of attempts", "A call is sent between 1 and %d times; 1 never sends it again.", MaxCallAttempts)
	}
	if p.Concurrency < 0 || p.Concurrency > MaxCallConcurrency {
		v.errorf(path+".concurrency", "Invalid concurrency", "Between 1 and %d calls may run at once.", MaxCallConcurrency)
	}
	if name := p.TokenVariable; name != "" && !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(name) {
		v.errorf(path+".token_variable", "Not an environment variable", "token_variable is the name of an environment variable, such as \"CLOUD_TOKEN\"; the token itself never stands in a file.")
	}
}

// managed checks how functions are created.
func (v *validator) managed(p *Provider, path string) {
	switch {
	case p.ManageURL != "" && !p.Manage:
		v.errorf(path+".manage_url", "Nothing to manage", "manage_url says where functions are created; add manage = true.")
	case p.ManageURL != "" && !regexp.MustCompile(`^https?://[^/?#@\s]+(/[^?#\s]*)?$`).MatchString(p.ManageURL):
		v.errorf(path+".manage_url", "Invalid address", "manage_url is http://HOST/PATH or https://HOST/PATH, without name, password or query; functions are below it.")
	case p.Manage && p.URL == "":
		v.errorf(path+".manage", "No address", "Functions that are created have to be called; add a url, such as \"https://functions.example.com/v2/models/{function}-{platform}-{size}\".")
	case p.Manage && !strings.Contains(p.URL[strings.LastIndexByte(p.URL, '/')+1:], "{function}"):
		v.errorf(path+".url", "No name for functions", "Functions are created by the last part of their address; it holds {function}, such as {function}-{platform}-{size}.")
	}
}

func (v *validator) template(p *Provider, path string) {
	if what := BadTemplate(p.URL); what != "" {
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
	if p.TokenVariable != "" && strings.HasPrefix(p.URL, "http:") && !OnLoopback(p.URL) {
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

// functionName keeps names apart that clients address alike: a pipeline as
// NAME, an application of a function as NAME/APPLICATION.
func (v *validator) functionName(f *Function, path string) {
	for _, p := range v.doc.Pipelines {
		if p.Name == f.Name {
			v.errorf(path, "Declared twice", "A pipeline is called %q as well, and clients address both by name; rename one.", f.Name)
		}
	}
}
