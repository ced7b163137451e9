//! The hot kernels, one call each, for an instruction counter: `laau-counts list [small]`, `laau-counts run NAME`.
//!
//! Everything around the kernel (instances, a first call that sizes workspaces) happens outside [`counted_kernel`], which is
//! the only function that the counter looks at.

#![expect(clippy::print_stdout, reason = "standard output is data")]

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;

use laau_baselines::{
    CeOptions, DpOptions, DualDescent, DualDescentOptions, DualDescentParameters, HorizonOptimum,
    HorizonOptions, Mirror, Phase, RlOptions, WaterFilling,
};
use laau_benches::{
    Batch, fairness_batch, fairness_episodes, log_utility, log_utility_batch, log_utility_episodes,
    minibatch_model, paper_model, play, vm_episodes, wireless_episodes,
};
use laau_core::problems::{VmAllocation, WeightedFairness, Wireless};
use laau_core::{
    Differentiate, EpisodeRun, Episodes, Fit, FitSets, Gradients, Guarded, Hindsight as _, Ledger, Player,
    Policy, Shadow, SmoothProblem, Solutions, StepSolver, Task, Unfitted, Unrolled, episode_gradient,
    rollout_all,
};
use laau_kkt::{FairnessLayer, InteriorPoint, Options};
use laau_net::{Engine, FusedEngine, Model, ModelSpec, Optimiser, OptimiserState, Precision, Statistics};
use rayon::ThreadPoolBuilder;

type Kernel = Box<dyn FnMut()>;

/// A kernel's name, and how it is set up.
type Named = (&'static str, fn() -> Kernel);

/// The small set: names as in the criterion benches, and how each is set up.
const SMALL: &[Named] = &[
    ("layer/closed-form/forward+pullback/d=1,M=1,batch=10", || {
        layer(Box::new(closed_form()), fairness_batch(10), Pass::Both)
    }),
    ("layer/log-utility/forward/d=8,M=3,batch=10", || {
        layer(interior_point(8, 3), log_utility_batch(8, 3, 10), Pass::Forward)
    }),
    ("layer/log-utility/pullback/d=8,M=3,batch=10", || {
        layer(interior_point(8, 3), log_utility_batch(8, 3, 10), Pass::Backward)
    }),
    ("layer/log-utility/forward+pullback/d=32,M=2,batch=10", || {
        layer(interior_point(32, 2), log_utility_batch(32, 2, 10), Pass::Both)
    }),
    ("layer/log-utility/forward+pullback/d=64,M=2,batch=10", || {
        layer(interior_point(64, 2), log_utility_batch(64, 2, 10), Pass::Both)
    }),
    ("layer/log-utility/forward+pullback/d=256,M=2,batch=10", || {
        layer(interior_point(256, 2), log_utility_batch(256, 2, 10), Pass::Both)
    }),
    ("layer/log-utility/forward+pullback/d=1024,M=2,batch=10", || {
        layer(
            interior_point(1024, 2),
            log_utility_batch(1024, 2, 10),
            Pass::Both,
        )
    }),
    ("layer/log-utility/forward+pullback/d=1024,M=8,batch=10", || {
        layer(
            interior_point(1024, 8),
            log_utility_batch(1024, 8, 10),
            Pass::Both,
        )
    }),
    ("episode/gradient/fairness/N=20", || gradient_of_an_episode(20)),
    ("episode/forward/fairness/N=20", episode_in_service),
    ("episode/forward/vm-allocation/d=4,M=4,N=20", episode_on_a_server),
    ("guard/vm-allocation/mw/d=4,M=4,N=20", || {
        guarded_on_a_server(Guarding::IncumbentAlone)
    }),
    ("guard/vm-allocation/laau-by-mw/d=4,M=4,N=20", || {
        guarded_on_a_server(Guarding::InLayer)
    }),
    ("guard/vm-allocation/laau-by-mw-segment/d=4,M=4,N=20", || {
        guarded_on_a_server(Guarding::OnSegment)
    }),
    ("train/fused/N=20,batch=10,width=10", || minibatch(20, 10, 10)),
    ("train/fused/N=20,batch=10,width=40", || minibatch(20, 10, 40)),
    ("train/fused/N=20,batch=10,width=80", || minibatch(20, 10, 80)),
    ("train/fused/N=20,batch=100,width=10", || minibatch(20, 100, 10)),
    ("train/fused/N=20,batch=100,width=80", || minibatch(20, 100, 80)),
    ("train/fused/N=20,batch=1000,width=10", || minibatch(20, 1000, 10)),
    ("train/fused/N=80,batch=10,width=10", || minibatch(80, 10, 10)),
    ("train/fused/N=80,batch=100,width=40", || minibatch(80, 100, 40)),
    ("train/fused-f32/N=20,batch=10,width=10", || {
        minibatch_in(Precision::F32, 20, 10, 10)
    }),
    ("train/fused-f32/N=20,batch=100,width=10", || {
        minibatch_in(Precision::F32, 20, 100, 10)
    }),
    ("train/fused-f32/N=20,batch=100,width=80", || {
        minibatch_in(Precision::F32, 20, 100, 80)
    }),
    ("train/fused-residual/N=20,batch=10,width=10", residual_minibatch),
    ("train/fused-guarded/N=20,batch=10,width=10", || {
        let task = Task::new(Arc::new(WeightedFairness::paper()), Box::new(closed_form()));
        general_minibatch(&task, fairness_episodes(50, 20), true)
    }),
    ("train/fused-vm-plain/N=20,batch=10,width=10", || {
        vm_minibatch(false)
    }),
    ("train/fused-vm-guarded/N=20,batch=10,width=10", || {
        vm_minibatch(true)
    }),
    ("train/fused-log-utility/d=8,M=3,N=20,batch=10", || {
        let problem = Arc::new(log_utility(8, 3));
        let set = log_utility_episodes(&problem, 10, 20);
        general_minibatch(&task_of(problem), set, false)
    }),
    ("train/fused-wireless/d=3,M=2,N=20,batch=10", || {
        let problem = Arc::new(Wireless::three_channels());
        let set = wireless_episodes(&problem, 10, 20);
        general_minibatch(&task_of(problem), set, false)
    }),
    ("train/rl/N=20,batch=10,width=10", reinforcement),
    ("rollout/fairness/threads=1,episodes=100", || rollouts(100)),
    ("decisions/dgd/step=10", || {
        decisions(&DualDescentOptions::dgd(), 10)
    }),
    ("decisions/mw/step=10", || {
        decisions(&DualDescentOptions::mw(), 10)
    }),
    ("decisions/ce/step=10", || decisions(&CeOptions::default(), 10)),
    ("decisions/dp/step=10", || decisions(&DpOptions::default(), 10)),
    ("opt/water-filling/N=1000", water_filling),
    ("opt/interior-point/d=4,M=2,N=20", || optimum_of_several(4, 20)),
    ("ledger/spend/M=3,payments=100", payments),
];

/// Sweeps, so that growth shows without noise.
const SWEEPS: &[Named] = &[
    ("layer/log-utility/forward+pullback/d=4,M=2,batch=10", || {
        layer(interior_point(4, 2), log_utility_batch(4, 2, 10), Pass::Both)
    }),
    ("layer/log-utility/forward+pullback/d=8,M=2,batch=10", || {
        layer(interior_point(8, 2), log_utility_batch(8, 2, 10), Pass::Both)
    }),
    ("layer/log-utility/forward+pullback/d=16,M=2,batch=10", || {
        layer(interior_point(16, 2), log_utility_batch(16, 2, 10), Pass::Both)
    }),
    ("episode/gradient/fairness/N=40", || gradient_of_an_episode(40)),
    ("episode/gradient/fairness/N=80", || gradient_of_an_episode(80)),
    ("train/fused/N=40,batch=10,width=10", || minibatch(40, 10, 10)),
    ("train/fused/N=20,batch=10,width=20", || minibatch(20, 10, 20)),
    ("train/fused/N=20,batch=32,width=10", || minibatch(20, 32, 10)),
    ("opt/interior-point/d=4,M=2,N=40", || optimum_of_several(4, 40)),
    ("opt/interior-point/d=4,M=2,N=80", || optimum_of_several(4, 80)),
    ("opt/interior-point/d=8,M=2,N=20", || optimum_of_several(8, 20)),
    ("opt/interior-point/d=16,M=2,N=20", || optimum_of_several(16, 20)),
    ("opt/interior-point/d=32,M=2,N=20", || optimum_of_several(32, 20)),
    ("rollout/fairness/threads=1,episodes=10", || rollouts(10)),
    ("rollout/fairness/threads=1,episodes=1000", || rollouts(1000)),
    ("decisions/dgd/step=100000", || {
        decisions(&DualDescentOptions::dgd(), 100_000)
    }),
    ("decisions/ce/step=100000", || {
        decisions(&CeOptions::default(), 100_000)
    }),
    ("decisions/dp-coarse/step=10", || decisions(&coarse(), 10)),
    ("decisions/dp-coarse/step=100000", || {
        decisions(&coarse(), 100_000)
    }),
    ("decisions/laau-residual/step=10", || decisions(&untrained(), 10)),
    ("decisions/laau-residual/step=100000", || {
        decisions(&untrained(), 100_000)
    }),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["list"] => {
            for (name, _) in SMALL.iter().chain(SWEEPS) {
                println!("{name}");
            }
        }
        ["list", "small"] => {
            for (name, _) in SMALL {
                println!("{name}");
            }
        }
        ["run", name] => {
            let Some((_, set_up)) = SMALL.iter().chain(SWEEPS).find(|(known, _)| *known == name) else {
                println!("no kernel is called {name}");
                return ExitCode::FAILURE;
            };
            // What is done in parallel is done by this thread, the one that is looked at.
            let alone = ThreadPoolBuilder::new().num_threads(1).use_current_thread();
            alone.build_global().expect("the first pool");
            let mut kernel = set_up();
            kernel();
            counted_kernel(&mut *kernel);
            println!("{}", features());
        }
        _ => {
            println!("expected `list [small]` or `run NAME`");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The only function whose instructions are counted, with all that it calls.
#[inline(never)]
fn counted_kernel(kernel: &mut dyn FnMut()) {
    kernel();
    black_box(());
}

/// The instruction sets that kernels may choose from where this runs: counts compare only between equal ones.
fn features() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        let mut found = vec!["x86_64"];
        for (name, is) in [
            ("avx2", is_x86_feature_detected!("avx2")),
            ("fma", is_x86_feature_detected!("fma")),
            ("avx512f", is_x86_feature_detected!("avx512f")),
        ] {
            if is {
                found.push(name);
            }
        }
        found.join("+")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        std::env::consts::ARCH.to_owned()
    }
}

fn closed_form() -> FairnessLayer {
    FairnessLayer::new(WeightedFairness::paper())
}

fn interior_point(actions: usize, budgets: usize) -> Box<dyn Differentiate> {
    let problem = Arc::new(log_utility(actions, budgets));
    Box::new(InteriorPoint::new(problem, Options::default()).expect("valid options"))
}

#[derive(PartialEq)]
enum Pass {
    Forward,
    Backward,
    Both,
}

fn layer(mut layer: Box<dyn Differentiate>, batch: Batch, pass: Pass) -> Kernel {
    let dimensions = layer.problem().dimensions();
    let mut solutions = Solutions::new(dimensions, batch.rows);
    let mut gradients = Gradients::new(dimensions, batch.rows);
    layer
        .solve_batch(batch.queries(), &mut solutions)
        .expect("sizes fit");
    Box::new(move || {
        if pass != Pass::Backward {
            layer
                .solve_batch(black_box(batch.queries()), &mut solutions)
                .expect("sizes fit");
        }
        if pass != Pass::Forward {
            layer
                .pullback_batch(batch.queries(), &solutions, &batch.upstream, &mut gradients)
                .expect("sizes fit");
        }
    })
}

fn gradient_of_an_episode(horizon: usize) -> Kernel {
    let set = fairness_episodes(1, horizon);
    let mut layer = closed_form();
    let prices = vec![0.05; horizon];
    Box::new(move || {
        black_box(episode_gradient(&mut layer, &set.get(0), &prices).expect("solvable"));
    })
}

fn episode_in_service() -> Kernel {
    let set = fairness_episodes(50, 20);
    let model = paper_model(&mut closed_form(), &set);
    let policy = Unrolled::new("laau", model, closed_form()).expect("one budget");
    let problem = WeightedFairness::paper();
    Box::new(move || play(&problem, &policy, &set, 0))
}

/// LAAU with everything that it can remember; how well it was trained makes no difference.
fn untrained() -> impl Fit {
    Unfitted(|task: &Task| {
        let set = fairness_episodes(50, 20);
        let spec = ModelSpec::residual(&*task.problem, 20);
        let statistics = Statistics::fit(&spec, &mut closed_form(), &set).expect("episodes of the problem");
        let model = Model::new(spec, statistics, 1).expect("statistics of this specification");
        Unrolled::new("laau-residual", model, closed_form())
    })
}

/// A table that is soon made.
fn coarse() -> DpOptions {
    DpOptions {
        points: 12,
        ..DpOptions::default()
    }
}

/// Some decisions of a policy in service, late or early in a long episode.
fn decisions(fit: &dyn Fit, step: usize) -> Kernel {
    const HORIZON: usize = 200_000;
    const AT_ONCE: usize = 16;
    let task = Task::new(Arc::new(WeightedFairness::paper()), Box::new(closed_form()));
    let set = fairness_episodes(50, 20);
    let sets = FitSets {
        train: &set,
        validation: &set,
    };
    let fitted = fit.fit(&task, sets, 0, &mut ()).expect("valid options");
    let Player::Online(policy) = fitted.player else {
        return Box::new(|| ());
    };
    // The process ends with its kernel: what that borrows may stay.
    let policy: &'static dyn Policy = &**Box::leak(Box::new(policy));
    let problem: &'static WeightedFairness = Box::leak(Box::new(WeightedFairness::paper()));
    let mut run = EpisodeRun::new(problem, HORIZON, &[12.5 * HORIZON as f64]).expect("a feasible budget");
    let mut agent = policy.begin();
    let mut action = [0.0];
    let mut decide = move || {
        let context = [(run.step() as f64 * 0.618).fract()];
        let step = run.reveal(&context).expect("a context of the problem");
        agent
            .decide(&step.observation(), &mut action)
            .expect("a decision");
        step.pay(&action).expect("an action that can be paid");
    };
    for _ in 0..step {
        decide();
    }
    Box::new(move || (0..AT_ONCE).for_each(|_| decide()))
}

fn episode_on_a_server() -> Kernel {
    let problem = VmAllocation::server();
    let set = vm_episodes(&problem, 5, 20);
    let mut layer = InteriorPoint::new(Arc::new(problem.clone()), Options::default()).expect("valid options");
    let model = paper_model(&mut layer, &set);
    let policy = Unrolled::new("laau", model, layer).expect("four budgets");
    Box::new(move || play(&problem, &policy, &set, 0))
}

#[derive(Clone, Copy)]
enum Guarding {
    IncumbentAlone,
    InLayer,
    OnSegment,
}

/// The episode of [`episode_on_a_server`] behind a guard.
fn guarded_on_a_server(guarding: Guarding) -> Kernel {
    const LEVEL: f64 = 0.95;
    let problem = VmAllocation::server();
    let set = vm_episodes(&problem, 5, 20);
    let layer = InteriorPoint::new(Arc::new(problem.clone()), Options::default()).expect("valid options");
    let model = paper_model(&mut layer.clone(), &set);
    let task = Task::new(Arc::new(problem.clone()), Box::new(layer.clone()));
    let parameters = DualDescentParameters::default();
    let mw = DualDescent::new(&task, Mirror::Entropic, parameters).expect("valid parameters");
    if let Guarding::IncumbentAlone = guarding {
        return Box::new(move || play(&problem, &mw, &set, 0));
    }
    let laau = Unrolled::new("laau", model, layer).expect("four budgets");
    let guarded = Guarded::new(
        "guarded",
        Arc::new(laau),
        Arc::new(mw),
        Arc::clone(&task.problem) as Arc<_>,
        LEVEL,
    )
    .expect("a valid level");
    let guarded = match guarding {
        Guarding::InLayer => guarded.in_layer(&task),
        _ => guarded,
    };
    Box::new(move || play(&problem, &guarded, &set, 0))
}

/// On one thread, so that what another does is not missed.
fn minibatch(horizon: usize, batch: usize, width: usize) -> Kernel {
    minibatch_in(Precision::F64, horizon, batch, width)
}

fn minibatch_in(precision: Precision, horizon: usize, batch: usize, width: usize) -> Kernel {
    let set = fairness_episodes(batch.max(50), horizon);
    let mut model = minibatch_model(&mut closed_form(), &set, width);
    let engine = FusedEngine::with_precision(closed_form().fork(), &model.spec, batch, precision);
    let mut engine = engine.expect("a layer of the problem").on_one_thread();
    let mut optimiser = OptimiserState::new(Optimiser::adam(), model.parameters.len());
    let mut gradient = vec![0.0; model.parameters.len()];
    let batch: Vec<usize> = (0..batch).collect();
    Box::new(move || {
        engine
            .loss_and_gradient(&model, &set, &batch, &mut gradient)
            .expect("a feasible minibatch");
        optimiser.step(&mut model.parameters, &gradient, 1e-3);
    })
}

fn task_of(problem: Arc<dyn SmoothProblem>) -> Task {
    let layer = InteriorPoint::new(Arc::clone(&problem), Options::default()).expect("valid options");
    Task::new(problem, Box::new(layer))
}

fn vm_minibatch(is_guarded: bool) -> Kernel {
    let problem = Arc::new(VmAllocation::server());
    let set = vm_episodes(&problem, 10, 20);
    general_minibatch(&task_of(problem), set, is_guarded)
}

/// Ten episodes of any task, behind a guard of untuned MW at a level of 0.95 or not.
fn general_minibatch(task: &Task, set: Episodes, is_guarded: bool) -> Kernel {
    let model = minibatch_model(&mut *task.solver.clone(), &set, 10);
    let engine = FusedEngine::new(task.solver.clone(), &model.spec, 10);
    let mut engine = engine.expect("a layer of the problem").on_one_thread();
    if is_guarded {
        let parameters = DualDescentParameters::default();
        let mw = DualDescent::new(task, Mirror::Entropic, parameters).expect("valid parameters");
        let shadow = Shadow::new(&*task.problem, &mw, 0.95, &set).expect("a level in its range");
        engine.guard(Arc::new(shadow)).expect("an engine that can");
    }
    step_of(engine, model, set)
}

fn residual_minibatch() -> Kernel {
    let set = fairness_episodes(50, 20);
    let spec = ModelSpec::residual(&WeightedFairness::paper(), 20);
    let statistics = Statistics::fit(&spec, &mut closed_form(), &set).expect("episodes of the problem");
    let model = Model::new(spec, statistics, 1).expect("statistics of this specification");
    let engine = FusedEngine::new(closed_form().fork(), &model.spec, 10).expect("a layer of the problem");
    step_of(engine.on_one_thread(), model, set)
}

/// Loss and gradient of the first ten episodes, then Adam.
fn step_of(mut engine: FusedEngine, mut model: Model, set: Episodes) -> Kernel {
    let mut optimiser = OptimiserState::new(Optimiser::adam(), model.parameters.len());
    let mut gradient = vec![0.0; model.parameters.len()];
    let batch: Vec<usize> = (0..10).collect();
    Box::new(move || {
        engine
            .loss_and_gradient(&model, &set, &batch, &mut gradient)
            .expect("a feasible minibatch");
        optimiser.step(&mut model.parameters, &gradient, 1e-3);
    })
}

/// One epoch of RL on ten minibatches, validated on one episode.
fn reinforcement() -> Kernel {
    let task = Task::new(Arc::new(WeightedFairness::paper()), Box::new(closed_form()));
    let (train, validation) = (fairness_episodes(100, 20), fairness_episodes(1, 20));
    let options = RlOptions {
        schedule: vec![Phase {
            epochs: 1,
            learning_rate: 5e-3,
        }],
        ..RlOptions::default()
    };
    Box::new(move || {
        let sets = FitSets {
            train: &train,
            validation: &validation,
        };
        black_box(options.fit(&task, sets, 0, &mut ()).expect("valid options"));
    })
}

fn rollouts(episodes: usize) -> Kernel {
    let set = fairness_episodes(episodes.max(50), 20);
    let model = paper_model(&mut closed_form(), &set);
    let policy = Unrolled::new("laau", model, closed_form()).expect("one budget");
    let set = set.select(&(0..episodes).collect::<Vec<_>>());
    let problem = WeightedFairness::paper();
    Box::new(move || {
        black_box(rollout_all(&problem, &policy, &set).expect("playable"));
    })
}

fn water_filling() -> Kernel {
    let set = fairness_episodes(1, 1000);
    let solver = WaterFilling::new(WeightedFairness::paper());
    let mut plan = vec![0.0; 1000];
    Box::new(move || solver.plan(&set.get(0), &mut plan).expect("feasible"))
}

fn optimum_of_several(actions: usize, horizon: usize) -> Kernel {
    let problem = Arc::new(log_utility(actions, 2));
    let set = log_utility_episodes(&problem, 1, horizon);
    let solver = HorizonOptimum::new(problem, HorizonOptions::default()).expect("valid options");
    Box::new(move || {
        let episode = set.get(0);
        black_box(
            solver
                .solve(episode.contexts(), episode.budgets())
                .expect("feasible"),
        );
    })
}

fn payments() -> Kernel {
    Box::new(|| {
        let mut ledger = Ledger::new(&[100.0, 200.0, 300.0]).expect("budgets");
        for step in 0..100 {
            let usage = 0.1 + 0.001 * f64::from(step);
            ledger
                .spend(&[usage, 1.1 * usage, 1.7 * usage])
                .expect("enough is left");
        }
        black_box(&ledger);
    })
}
