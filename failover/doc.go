// Package failover makes the next attempt elsewhere: at another model, key, region, replica or
// endpoint that can do the same call.
//
//	var models = failover.Set[string]{Targets: []*failover.Target[string]{
//		{Name: "large", Value: "large-2026-05"},
//		{Name: "small", Value: "small-2026-05"},
//	}}
//
//	answer, err := failover.Do(ctx, policy, &models, func(ctx context.Context, t *failover.Target[string]) (string, error) {
//		return complete(ctx, t.Value, prompt)
//	})
//
// A run of [Do] is one of [retry.Do] that chooses a target for each attempt. These are the rules:
//
//   - An attempt is made at the first target that is free and that the run has not tried in this
//     round. One that fails is followed at once by one at the next. The round is over when
//     there is none: then comes the backoff, which counts rounds, and then the first again.
//   - What a server asks for (Retry-After) binds the run that it has told. Other runs go elsewhere
//     meanwhile if they can. If six in a row are told so, over two seconds or more, all
//     runs keep to it.
//   - Three failures in a row have a target rest, for all runs, and so does one that Set.Broken
//     knows. Who has ended its call is not the target's fault, nor is who had no time left, if the target
//     has answered others since that attempt began.
//   - After a rest a target is on trial: one attempt at a time, and one more for each that is
//     answered, until ten are. A failure begins the next rest, which is longer. An attempt that hangs keeps
//     others away for as long as the rest was.
//   - If no target is free, rests are ignored that no server has asked all for: the target that failed
//     longest ago is tried, those that timed out last. So no outage is made by this package. A
//     run that has tried all free targets of its round does so too, of all runs one in each rest.
//   - If all targets have to be left alone, the run waits for the first, and comes
//     back within as long again, by chance. If that is too late, or the server has wished for more than
//     MaxRetryAfter, the run ends at once with [retry.ErrPaced], whose RetryAfter says when it is asked.
//   - A target whose guards have the attempt wait, or refuse it, is passed over. If none admits it, the
//     run waits for what comes first: a turn, the end of a rest, or the next round.
//   - A permanent error ends the run, unless Set.Elsewhere or Set.Broken says that another target may do.
//   - The first switch of a run takes nothing from Policy.Budget if nothing was done: after an
//     Unprocessed or Throttled error, and after Elsewhere and Broken. All else pays as any retry.
//   - A poll goes on where it is, and so does a retry that a server asks for at once.
//
// All limits of the policy count the attempts at all targets, and MaxAttempts should be no less than
// their number. With one target Do is retry.Do, but for what [Target.Hold] and the server ask of all runs.
//
// A target is what fails as one. Two keys of one account that share a quota are one target. Two
// models of one provider are two, if one can be overloaded alone.
package failover
