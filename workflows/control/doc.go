// Package control speaks to the workflows through a Temporal client: it is
// what the command line and sdk/local call, and all that they need to know of
// the workflows. Services of all kinds are named alike; no two share a name.
//
//	c := control.New(temporalClient, control.Options{})
//	reply, err := c.Apply(ctx, workflows.ApplyRequest{Spec: spec})
//	status, err := c.WaitServing(ctx, "traffic", reply.Generation, nil)
//	fmt.Print(status.Describe())
package control
