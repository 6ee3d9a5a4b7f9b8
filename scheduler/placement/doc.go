// Package placement decides where the groups of a plan run, and what to change
// when something runs already.
//
// Place packs executors onto devices. A group of a plan is a demand for device
// time: 2.3 machines are a share of 2.3. It is spread over as few executors as
// keep every device within a stated bound of utilisation, and several modules
// may share a device as long as their shares add up to at most that bound and
// their memory fits. The bound leaves room for what a plan of mean rates does
// not see: bursts, and batches that wait for another module's batch on the
// same device. It is a rule of thumb, not a proof. A plan of whole or shared devices lists
// what runs together, and is placed as it was proven as long as the devices are enough.
//
// Executors that run already stay where they are when the new plan has use for
// them, because starting one costs a model load.
//
// Reconcile compares desired with actual executors by name. A name encodes everything that
// cannot change while an executor lives (module, model, engine, device, batch) and a number
// for each start of such an executor: what a placement keeps has its running name, and what
// it starts has a fresh one. So equal names mean "keep it". Start comes before Stop, so
// that capacity never drops in between.
package placement
