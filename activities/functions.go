package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/harpagon/harpagon/executors/serverless"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
)

// Functions are the activities that create and delete functions at providers.
type Functions struct {
	// Provisioner says how a provider is told; nil means over HTTP.
	Provisioner func(p *pipelines.Provider) (serverless.Provisioner, error)

	// Allow are HOST or HOST:PORT of providers that may be told so; none allow all.
	Allow []string
}

// ManageInput is the input of ManageFunctions.
type ManageInput struct {
	Provider pipelines.Provider
	Function string
	Want     []functions.Managed // all that there shall be of it
}

// ManageFunctions brings a provider to what is wanted of one function, and says what it
// did. It may be repeated. A provider that refuses fails it with type TypeNotReady, so
// that nothing changes for requests and the change is tried again later.
func (f *Functions) ManageFunctions(ctx context.Context, in ManageInput) (functions.Managing, error) {
	defer beat(ctx, nothing)()
	how := f.Provisioner
	if how == nil {
		how = func(p *pipelines.Provider) (serverless.Provisioner, error) {
			return serverless.NewHook(p, serverless.HookOptions{Allow: f.Allow})
		}
	}
	p, err := how(&in.Provider)
	var done functions.Managing
	if err == nil {
		done, err = serverless.Ensure(ctx, p, in.Function, in.Want)
	}
	switch {
	case errors.Is(err, serverless.ErrRefused):
		return done, temporal.NewNonRetryableApplicationError(err.Error(), TypeNotReady, nil)
	case err != nil && ctx.Err() == nil:
		return done, temporal.NewApplicationError(err.Error(), TypeNotReady)
	}
	return done, err
}
