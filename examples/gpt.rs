//! A small GPT: a transformer that learns to write sentences sign by sign, and writes new ones from the keys
//! and values that it keeps of earlier signs. Then low-rank adapters teach it another word order, without a
//! change of its weights.
//!
//! The sentences follow a grammar that it is never told: the number of the first noun decides the form of the
//! verb, however many adjectives stand between. What it writes is parsed, so that the end is a test.
//!
//! Source: A. Radford et al., "Language models are unsupervised multitask learners", 2019; E. J. Hu et al.,
//! "LoRA: Low-rank adaptation of large language models", arXiv:2106.09685, 2021.

use std::time::{Duration, Instant};

use bibun::array::{Array, DType, Generator};
use bibun::distributions::{Categorical, Distribution};
use bibun::functions::softmax_cross_entropy;
use bibun::initializers::{HeNormal, Initializer};
use bibun::links::{
    Chain, Embedding, KeyValueCache, LayerNorm, Linear, Link, SinusoidalPositions, TransformerBlock,
};
use bibun::optimizers::hooks::ClipNorm;
use bibun::optimizers::{Adam, Optimizer};
use bibun::{Variable, no_grad, s};

/// What a text is made of. A full stop is before the first sentence and behind every one.
const SIGNS: &str = ". abcdefghijklmnopqrstuvwxyz";
const ADJECTIVES: [&str; 4] = ["small", "red", "old", "quick"];
const NOUNS: [&str; 6] = ["cat", "dog", "bird", "owl", "cow", "hen"];
const VERBS: [&str; 4] = ["see", "hear", "like", "follow"];

#[derive(Clone, Copy, PartialEq)]
enum Order {
    /// the old cats see a dog.
    VerbSecond,
    /// the old cats a dog see.
    VerbLast,
}

struct Writer {
    random: Generator,
    order: Order,
}

impl Writer {
    fn new(seed: u64, order: Order) -> Self {
        Self {
            random: Generator::new(seed),
            order,
        }
    }

    fn choose<T: Copy>(&mut self, all: &[T]) -> T {
        let place = self.random.integers(0, all.len() as i64, []);
        all[place.item::<i64>() as usize]
    }

    /// Returns something, and whether it is more than one.
    fn noun_phrase(&mut self) -> (String, bool) {
        let articles = [("a", false), ("two", true), ("the", false), ("the", true)];
        let (article, many) = self.choose(&articles);
        let mut words = vec![article.to_string()];
        while self.choose(&[false, true, false]) {
            words.push(self.choose(&ADJECTIVES).into());
        }
        words.push(self.choose(&NOUNS).to_string() + if many { "s" } else { "" });
        (words.join(" "), many)
    }

    fn sentence(&mut self) -> String {
        let ((subject, many), (object, _)) = (self.noun_phrase(), self.noun_phrase());
        let verb = self.choose(&VERBS).to_string() + if many { "" } else { "s" };
        match self.order {
            Order::VerbSecond => format!("{subject} {verb} {object}."),
            Order::VerbLast => format!("{subject} {object} {verb}."),
        }
    }

    /// Returns texts `[count, length]` that begin with a sentence, and the sign that follows each sign.
    fn batch(&mut self, count: usize, length: usize) -> (Variable, Variable) {
        let mut signs = Vec::with_capacity(count * (length + 1));
        for _ in 0..count {
            let mut text = String::from(".");
            while text.len() <= length {
                text += &self.sentence();
            }
            signs.extend(numbers(&text[..=length]));
        }
        let texts = Variable::constant(Array::from(signs).reshape([count, length + 1]));
        (texts.slice(s![.., ..-1]), texts.slice(s![.., 1..]))
    }
}

fn numbers(text: &str) -> impl Iterator<Item = i64> {
    let number = |sign| SIGNS.find(sign).expect("a sign that there is") as i64;
    text.chars().map(number)
}

/// Returns the word order of a sentence, if it is one.
fn parsed(sentence: &str) -> Option<Order> {
    /// Takes something from the front, and returns whether it is more than one.
    fn noun_phrase(words: &mut &[&str]) -> Option<bool> {
        let (&article, mut rest) = words.split_first()?;
        while let [adjective, further @ ..] = rest
            && ADJECTIVES.contains(adjective)
        {
            rest = further;
        }
        let (noun, rest) = rest.split_first()?;
        *words = rest;
        let many = noun.ends_with('s');
        let fits = NOUNS.contains(&noun.strip_suffix('s').unwrap_or(noun))
            && (article == "the" || article == if many { "two" } else { "a" });
        fits.then_some(many)
    }
    fn verb(words: &mut &[&str], many: bool) -> Option<()> {
        let (&verb, rest) = words.split_first()?;
        *words = rest;
        let plain = if many { verb } else { verb.strip_suffix('s')? };
        VERBS.contains(&plain).then_some(())
    }
    let words: Vec<&str> = sentence.split(' ').collect();
    let mut rest = &words[..];
    let many = noun_phrase(&mut rest)?;
    let order = match verb(&mut rest, many) {
        Some(()) => {
            noun_phrase(&mut rest)?;
            Order::VerbSecond
        }
        None => {
            rest = &words[..];
            noun_phrase(&mut rest)?;
            noun_phrase(&mut rest)?;
            verb(&mut rest, many)?;
            Order::VerbLast
        }
    };
    rest.is_empty().then_some(order)
}

#[derive(Chain, Clone)]
struct Gpt {
    signs: Embedding,
    blocks: Vec<TransformerBlock>,
    norm: LayerNorm,
    scores: Linear,
}

impl Gpt {
    fn new(size: usize, heads: usize, layers: usize, random: &mut Generator) -> Self {
        let signs = Embedding::new(SIGNS.len(), size, random);
        let block = |_| {
            TransformerBlock::builder(size, heads)
                .causal()
                .build(random)
        };
        let blocks = (0..layers).map(block).collect();
        Self {
            signs,
            blocks,
            norm: LayerNorm::new(size),
            scores: Linear::new(size, SIGNS.len(), random),
        }
    }

    /// Signs `[n, t]` that follow those in the caches → scores `[n, t, sign]`.
    fn continued(&self, signs: &Variable, caches: &mut [KeyValueCache]) -> Variable {
        let seen = caches[0].len();
        let mut h = SinusoidalPositions.forward_from(&self.signs.forward(signs), seen);
        for (block, cache) in self.blocks.iter().zip(caches) {
            h = block.forward_with_cache(&h, None, cache);
        }
        self.scores.forward(&self.norm.forward(&h))
    }

    fn caches(&self) -> Vec<KeyValueCache> {
        vec![KeyValueCache::new(); self.blocks.len()]
    }
}

impl Link for Gpt {
    /// Signs `[n, t]` → scores `[n, t, sign]`.
    fn compute(&self, signs: &Variable) -> Variable {
        self.continued(signs, &mut self.caches())
    }
}

/// `down` and `up`, whose product is added to a weight. It begins as nothing, for `up` is zero.
#[derive(Chain)]
struct LowRank {
    /// `[rank, inputs]`
    down: Variable,
    /// `[outputs, rank]`
    up: Variable,
}

impl LowRank {
    fn beside(weight: &Variable, rank: usize, random: &mut Generator) -> Self {
        let [outputs, inputs] = weight.shape()[..] else {
            unreachable!("weights are a matrix")
        };
        let down = HeNormal.initialize(&[rank, inputs].into(), DType::F32, random);
        Self {
            down: Variable::new(down),
            up: Variable::new(Array::zeros([outputs, rank], DType::F32)),
        }
    }
}

/// The weights of a block that get an adapter.
fn adapted_weights(block: &mut TransformerBlock) -> [&mut Variable; 4] {
    let attention = &mut block.attention;
    let [hidden, output] = &mut block.feed_forward.layers[..] else {
        unreachable!("a perceptron of two layers")
    };
    [
        &mut attention.query.weight,
        &mut attention.value.weight,
        &mut hidden.weight,
        &mut output.weight,
    ]
}

#[derive(Chain)]
struct Adapted {
    base: Gpt,
    adapters: Vec<[LowRank; 4]>,
}

impl Adapted {
    /// The GPT, frozen, with adapters that do nothing yet.
    fn new(mut base: Gpt, rank: usize, random: &mut Generator) -> Self {
        base.freeze();
        let adapters = base.blocks.iter_mut().map(|block| {
            adapted_weights(block).map(|weight| LowRank::beside(weight, rank, random))
        });
        Self {
            adapters: adapters.collect(),
            base,
        }
    }

    /// The GPT with other weights. A weight may be any Variable: these remember how they were made, and so
    /// their gradients reach the adapters.
    fn gpt(&self) -> Gpt {
        let mut gpt = self.base.clone();
        for (block, adapters) in gpt.blocks.iter_mut().zip(&self.adapters) {
            for (weight, LowRank { down, up }) in adapted_weights(block).into_iter().zip(adapters) {
                *weight = &*weight + up.matmul(down);
            }
        }
        gpt
    }
}

/// Draws the sentences that follow a full stop, each sign from its score over the temperature.
fn write(gpt: &Gpt, count: usize, temperature: f64, random: &mut Generator) -> Vec<String> {
    const LONGEST: usize = 80;
    let mut texts = vec![String::new(); count];
    let mut caches = gpt.caches();
    let mut last = Variable::constant(Array::zeros([count, 1], DType::I64));
    for _ in 0..LONGEST {
        let scores = no_grad(|| gpt.continued(&last, &mut caches)) / temperature;
        last = Categorical::from_logits(scores).sample([], random);
        for (text, &sign) in texts.iter_mut().zip(&last.to_vec::<i64>()) {
            if !text.ends_with('.') {
                text.push_str(&SIGNS[sign as usize..][..1]);
            }
        }
        if texts.iter().all(|text| text.ends_with('.')) {
            break;
        }
    }
    texts
}

/// The share of sentences in this word order.
fn share(sentences: &[String], order: Order) -> f64 {
    let fits = |sentence: &&String| {
        let sentence = sentence.strip_suffix('.');
        sentence.and_then(parsed) == Some(order)
    };
    sentences.iter().filter(fits).count() as f64 / sentences.len() as f64
}

/// The most likely signs behind a text, each from all signs before it, or from the last and a cache.
fn most_likely(gpt: &Gpt, text: &str, count: usize, cached: bool) -> (String, Duration) {
    let mut signs: Vec<i64> = numbers(text).collect();
    let mut caches = gpt.caches();
    let mut new = 0;
    let begin = Instant::now();
    for _ in 0..count {
        let input = |first: usize| Variable::constant(Array::from(&signs[first..]).expand_dims(0));
        let scores = no_grad(|| match cached {
            true => gpt.continued(&input(new), &mut caches),
            false => gpt.forward(&input(0)),
        });
        new = signs.len();
        signs.push(scores.slice(s![0, -1]).argmax(0).item());
    }
    let time = begin.elapsed();
    let written = signs.iter().map(|&sign| &SIGNS[sign as usize..][..1]);
    (written.collect(), time)
}

fn train(model: &impl Chain, gpt: impl Fn() -> Gpt, writer: &mut Writer, rate: f64, steps: usize) {
    let mut optimizer = Adam::new(rate).hook(ClipNorm(1.0));
    for step in 1..=steps {
        let (signs, next) = writer.batch(32, 64);
        let loss = optimizer.minimize(model, &mut || {
            softmax_cross_entropy(gpt().forward(&signs).swapaxes(1, 2), &next)
        });
        if step % 100 == 0 {
            println!("step {step}: loss {:.3}", loss.item::<f32>());
        }
    }
}

fn main() {
    let random = &mut Generator::new(0);
    let gpt = Gpt::new(64, 4, 2, random);
    println!("{} parameters", gpt.parameter_count());
    train(
        &gpt,
        || gpt.clone(),
        &mut Writer::new(1, Order::VerbSecond),
        0.003,
        500,
    );
    let sentences = write(&gpt, 200, 0.5, random);
    println!("it writes: {}", sentences[..4].join(" "));
    let right = share(&sentences, Order::VerbSecond);
    println!("{right:.3} of its sentences follow the grammar");

    let (slow, without) = most_likely(&gpt, ".", 200, false);
    let (text, with) = most_likely(&gpt, ".", 200, true);
    println!(
        "200 signs one by one take {without:.0?}, and {with:.0?} with what is kept of those before"
    );
    assert_eq!(text, slow);

    let checksum = gpt.state().checksum();
    let adapted = Adapted::new(gpt, 8, random);
    println!(
        "{} parameters of adapters",
        adapted.trainable_parameter_count()
    );
    train(
        &adapted,
        || adapted.gpt(),
        &mut Writer::new(2, Order::VerbLast),
        0.01,
        200,
    );
    let taught = no_grad(|| adapted.gpt());
    let sentences = write(&taught, 200, 0.5, random);
    println!("it writes: {}", sentences[..4].join(" "));
    let other = share(&sentences, Order::VerbLast);
    println!("{other:.3} of its sentences have the verb at the end");

    // What it was is there, without the adapters.
    assert_eq!(adapted.base.state().checksum(), checksum);
    let before = share(&write(&adapted.base, 200, 0.5, random), Order::VerbSecond);
    assert!(
        right > 0.8 && before > 0.8 && other > 0.8,
        "{right}, {before}, {other}"
    );
    assert!(4 * adapted.trainable_parameter_count() < adapted.base.parameter_count());
}
