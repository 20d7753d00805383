// What an application does with the official Rust client, against the server at MAINSTEM_URL. Prints the results as JSON.
use std::error::Error;
use std::sync::{Arc, Mutex};

use durable_streams::{
    AppendOptions, Client, CloseOptions, CreateOptions, DurableStream, LiveMode, Offset, ProducerError, StreamError,
};
use serde_json::{json, Map, Value};
use tokio::sync::mpsc;

type Outcome<T> = Result<T, Box<dyn Error>>;

async fn create(client: &Client, name: &str, content_type: &str) -> Outcome<DurableStream> {
    let url = format!("{}/v1/stream/rust/{name}", std::env::var("MAINSTEM_URL")?);
    let mut stream = client.stream(&url);
    stream.create_with(CreateOptions::new().content_type(content_type)).await?;
    stream.set_content_type(content_type);
    Ok(stream)
}

/// Sends each item that it reads, until it has read everything or, in live mode, until the receiver is dropped: this
/// client does not report that a stream is closed.
fn follow(stream: &DurableStream, live: LiveMode) -> mpsc::Receiver<Value> {
    let (sender, receiver) = mpsc::channel(1);
    let reading = stream.read().offset(Offset::Beginning).live(live).build();
    tokio::spawn(async move {
        let mut reader = reading.expect("a reader");
        while let Some(chunk) = reader.next_chunk().await.expect("a chunk") {
            if !chunk.data.is_empty() {
                let batch: Vec<Value> = serde_json::from_slice(&chunk.data).expect("an array");
                for item in batch {
                    if sender.send(item).await.is_err() {
                        return;
                    }
                }
            }
            if sender.is_closed() {
                return;
            }
        }
    });
    receiver
}

async fn take(items: &mut mpsc::Receiver<Value>, count: usize) -> Vec<Value> {
    let mut found = vec![];
    while found.len() < count {
        match items.recv().await {
            Some(item) => found.push(item),
            None => break,
        }
    }
    found
}

/// Returns whether the server refused this epoch of the producer as stale.
async fn produce(stream: &DurableStream, epoch: u64, numbers: std::ops::Range<i64>) -> Outcome<bool> {
    let stale = Arc::new(Mutex::new(false));
    let heard = stale.clone();
    let producer = stream
        .producer("producer")
        .epoch(epoch)
        .content_type("application/json")
        .on_error(move |error| *heard.lock().unwrap() = matches!(error, ProducerError::StaleEpoch { .. }))
        .build();
    for number in numbers {
        producer.append_json(&number);
    }
    let flushed = producer.flush().await;
    let refused = *stale.lock().unwrap() || matches!(flushed, Err(ProducerError::StaleEpoch { .. }));
    if !refused {
        flushed?;
        producer.close().await?;
    }
    Ok(refused)
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let client = Client::new();
    let mut seen = Map::new();

    // Append and read
    let plain = create(&client, "plain", "text/plain").await?;
    plain.append_with("grüße ", AppendOptions::new().seq("1")).await?;
    plain.append_with("zwei", AppendOptions::new().seq("2")).await?;
    let mut reader = plain.read().offset(Offset::Beginning).live(LiveMode::Off).build()?;
    let mut text = Vec::new();
    while let Some(chunk) = reader.next_chunk().await? {
        text.extend_from_slice(&chunk.data);
    }
    seen.insert("text".into(), json!(String::from_utf8(text)?));
    let late = plain.append_with("drei", AppendOptions::new().seq("1")).await;
    seen.insert("conflict".into(), json!(matches!(late, Err(StreamError::SeqConflict))));
    let missing = client.stream(&format!("{}-missing", plain.url())).head().await;
    seen.insert("missing".into(), json!(matches!(missing, Err(StreamError::NotFound { .. }))));

    // A producer with batches, and one that takes over
    let produced = create(&client, "produced", "application/json").await?;
    assert!(!produce(&produced, 0, 0..200).await?);
    assert!(!produce(&produced, 1, 200..201).await?);
    seen.insert("fenced".into(), json!(produce(&produced, 0, -1..0).await?));
    seen.insert("produced".into(), json!(take(&mut follow(&produced, LiveMode::Off), usize::MAX).await));

    // Following, and a close that followers see
    for (name, live) in [("sse", LiveMode::Sse), ("long-poll", LiveMode::LongPoll)] {
        let stream = create(&client, name, "application/json").await?;
        stream.append("\"before\"").await?;
        let mut items = follow(&stream, live);
        let mut found = take(&mut items, 1).await;
        stream.append("\"during\"").await?;
        found.append(&mut take(&mut items, 1).await);
        stream.close_with(CloseOptions::new().data("\"after\"")).await?;
        found.append(&mut take(&mut items, 1).await);
        seen.insert(name.into(), json!(found));
        assert!(stream.head().await?.stream_closed);
        let refused = stream.append("\"late\"").await;
        seen.insert(format!("refused-{name}"), json!(matches!(refused, Err(StreamError::StreamClosed))));
    }
    println!("{}", Value::Object(seen));
    Ok(())
}
