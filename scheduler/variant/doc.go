// Package variant chooses which networks serve a pipeline whose modules have variants.
//
// Each combination of variants is an ordinary pipeline: the same modules with other
// profiles. So a choice is made around a planner, which is asked for the plan of one
// combination after another, the most accurate first:
//
//	accuracy of a combination  =  product of the accuracies of its modules
//
// which is the pipeline accuracy score of IPA (Ghafouri et al., arXiv 2308.12871). Two
// aims are known from InferLine's successors:
//
//   - LeastCost, as IPA's floor: of the combinations that are accurate enough, the one
//     whose plan costs least;
//   - MostAccurate, as the accuracy scaling of Loki (Ahmad, Guan, Sitaraman, arXiv
//     2407.03583): on devices that are fixed, the most accurate combination for which
//     they suffice, and never less than the floor.
//
// One network serves each module at a time: a plan gives it all requests of the module.
// As the rate changes, so does the choice, and Shares counts who has answered how many.
package variant
